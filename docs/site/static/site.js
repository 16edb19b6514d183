// The versions that stand beside this one. A page that another version has not leads to its first one.
const addressIn = (version, page) => {
  const root = document.documentElement.dataset.content_root;
  return `${root}../${version}/${VERSIONS[version].includes(page) ? page : "index"}.html`;
};
const offerVersions = (select) => {
  const own = select.value;
  for (const name of Object.keys(window.VERSIONS ?? {}))
    if (name !== own) select.add(new Option(name));
  select.onchange = () => location.assign(addressIn(select.value, select.dataset.page));
};

// Each group of the navigation folds. The first and that of the page are open, on the first page the second.
const fold = (caption, place) => {
  const list = caption.nextElementSibling;
  const group = document.createElement("details");
  const title = document.createElement("summary");
  title.className = "caption";
  title.append(...caption.childNodes);
  caption.replaceWith(group);
  group.append(title, list);
  const isSecond = place === 1 && !document.querySelector(".sidebar-tree .current-page");
  group.open = place === 0 || isSecond || list.querySelector(".current-page") !== null;
};

// On a phone a row of a table is a block: its cells have the names of their columns.
const nameCells = (table) => {
  const names = [...(table.tHead?.rows[0].cells ?? [])].map((cell) => cell.innerText.trim());
  if (names.length < 2) return;
  table.classList.add("in-blocks");
  table.classList.toggle("of-many", names.length > 4);
  for (const row of table.tBodies[0].rows)
    [...row.cells].forEach((cell, place) => {
      const isNamed = place && cell.innerText.trim();
      cell.dataset.name = isNamed ? names[place] : "";
    });
};

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".sidebar-versions select").forEach(offerVersions);
  document.querySelectorAll(".sidebar-tree > .caption").forEach(fold);
  document.querySelectorAll("article table.docutils").forEach(nameCells);
});
