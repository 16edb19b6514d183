// Refreshes the page when something changed, and gives it keys. Everything works without it.

const base = document.body.dataset.base;
const content = document.getElementById("content");
let isBusy = false;
let isDue = false;

// An open part, a chosen job or a field in use must survive a refresh.
const keep = {
  ignoreActiveValue: true,
  callbacks: {
    beforeAttributeUpdated: (name, node) =>
      !((name === "open" && node.tagName === "DETAILS") || name === "checked"),
  },
};

// A filter that was typed or chosen and is not sent yet must survive a refresh as well.
function isEdited(field) {
  if (!field.options) return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max(0, [...field.options].findIndex((each) => each.defaultSelected));
}

async function refresh() {
  if (isBusy || document.hidden) {
    isDue = true;
    return;
  }
  isBusy = true;
  isDue = false;
  try {
    const reply = await fetch(location.href, { headers: { "X-Part": "1" }, redirect: "error" });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const part = page.getElementById("content");
    const isAtWork = content.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), select");
    // A form that is filled in bit by bit keeps its page as it is.
    const isStill =
      content.querySelector("form[data-still]") !== null ||
      [...content.querySelectorAll(".filters :is(input, select)")].some(isEdited);
    // The answer to a form, such as an error, has no address from which to refresh it.
    const isAnswer = reply.status === 405;
    const isHeld = isAtWork || isStill || content.querySelector("tbody input:checked") !== null;
    document.body.classList.toggle("held", isHeld && !isAnswer);
    if (part && !isAnswer && !isHeld) {
      Idiomorph.morph(content, part.innerHTML, { morphStyle: "innerHTML", ...keep });
    }
    // A proxy may answer in its place.
    document.body.classList.toggle("away", part === null);
  } catch {
    document.body.classList.add("away");
  }
  // At most one refresh a second, however much changes.
  setTimeout(() => {
    isBusy = false;
    if (isDue) refresh();
  }, 1000);
}

function watch() {
  const stream = new EventSource(`${base}/events`);
  stream.addEventListener("changed", refresh);
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => event.persisted && watch(), { once: true });
}

const places = { o: "/", j: "/jobs", f: "/failures", q: "/queues", n: "/nodes", s: "/schedules" };
const keys = document.getElementById("keys");
let isGoing = false;

addEventListener("keydown", (event) => {
  // The list of databases has no pages that keys lead to.
  if (keys === null) return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (isGoing && places[event.key]) location.href = base + places[event.key];
  isGoing = event.key === "g";
  if (event.key === "/") {
    event.preventDefault();
    const search = document.getElementById("search");
    // In a narrow window it is in the menu.
    if (!search.checkVisibility()) document.getElementById("menu").showPopover();
    search.focus();
  }
  if (event.key === "?") keys.showModal();
});

// The values of a chart are found by arrows as well as by the pointer.
addEventListener("keydown", (event) => {
  const next = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  if (!next || !event.target.matches(".points li")) return;
  let point = event.target[next];
  while (point && !point.hasAttribute("tabindex")) point = point[next];
  if (point) point.focus();
});

addEventListener("change", (event) => {
  if (document.body.classList.contains("held")) setTimeout(refresh);
  if (!event.target.matches("[data-all]")) return;
  for (const box of event.target.form.querySelectorAll("tbody input[type=checkbox]")) {
    box.checked = event.target.checked;
  }
});

// The menu has the field for forms that have none of their own.
addEventListener("formdata", ({ formData }) => {
  const reason = document.getElementById("reason")?.value.trim();
  if (reason && formData.has("shown") && !formData.get("why")) formData.set("why", reason);
});

// Without a script, or where the browser has no clipboard for pages, the link shows the text.
addEventListener("click", async (event) => {
  const link = event.target.closest("[data-copy]");
  if (!link || !navigator.clipboard) return;
  event.preventDefault();
  const reply = await fetch(link.href);
  if (reply.ok) await navigator.clipboard.writeText(await reply.text());
  link.firstChild.data = reply.ok ? "Copied" : "Not copied";
});

document.addEventListener("visibilitychange", () => isDue && refresh());
if (document.querySelector("header nav")) watch();
