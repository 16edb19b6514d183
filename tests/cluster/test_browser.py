"""The dashboard in a real browser: each page, and each act with and without JavaScript."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from attrs import define
from twisted.internet.threads import deferToThread

from tests.cluster.database import Database
from tests.dashboards import served
from tests.firefox import Firefox
from tests.samples import HOSTILE, fill, fill_with_hostile_texts
from txqueue.web.pages.routes import MENU
from txqueue.web.settings import ShownDatabase

pytestmark = pytest.mark.slow("txqueue/web")

playwright = pytest.importorskip("playwright.sync_api", exc_type=ImportError)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
# Animations, and to look for a GPU, cost a tenth of what the pages do.
FLAGS = ("--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion")
KEY = {"key": "secret"}
WIDTHS = (1440, 390)
# Violations below these are matters of taste.
GRAVE = ("moderate", "serious", "critical")
VIOLATIONS = {"resultTypes": ["violations"]}
DETAILS = (
    *("/queues/queue?name=orders", "/queues/queue?name=mail&span=30d", "/queues/queue?name=none"),
    *("/types/type?name=orders.sync", "/types/type?name=legacy.export"),
    *("/failures?work_type=orders.sync", "/schedules/edit?name=nightly+report"),
    "/types/enqueue?name=orders.sync",
    *("/schedules/edit?name=reindex", "/nodes/node?name=app-1", "/nodes/node?name=none"),
)
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
OUTSIDE = """
    () => {
        for (const each of document.querySelectorAll("details")) each.open = true;
        document.getElementById("menu").showPopover();
        const acts = [...document.querySelectorAll(
            ":is(header, main)"
            + " :is(a:not(.skip), button, input:not([type=hidden]), select, summary)")];
        const bad = acts.filter(each => each.checkVisibility()).filter(each => {
            const box = each.getBoundingClientRect();
            return box.width === 0 || box.left < 0 || box.right > innerWidth;
        });
        const labels = [...document.querySelectorAll(".chart :is(.axis span, .legend li)")];
        const crossing = labels.filter(each => {
            const box = each.getBoundingClientRect();
            const card = each.closest(".chart").getBoundingClientRect();
            return box.left < card.left || box.right > card.right;
        });
        return [...bad, ...crossing].map(each => each.outerHTML.slice(0, 120));
    }
"""


@pytest.fixture
def sample(db: Database) -> Database:
    """A database with something on each page."""
    fill(db.dsn)
    return db


@define
class Chromium:
    """A browser for the tests of this module, as a start takes seconds.

    Playwright's objects belong to the thread that made them.
    """

    thread: ThreadPoolExecutor
    _browser: Any

    @classmethod
    @contextmanager
    def started(cls) -> "Iterator[Chromium]":
        """Start it, and close it at the end."""
        with ThreadPoolExecutor(1) as thread:
            driver = thread.submit(playwright.sync_playwright().start).result()
            start = partial(driver.chromium.launch, executable_path=CHROMIUM, args=FLAGS)
            try:
                browser = thread.submit(start).result()
                yield cls(thread, browser)
                thread.submit(browser.close).result()
            finally:
                thread.submit(driver.stop).result()

    @contextmanager
    def opened(self, port: int, **manners: Any) -> Iterator[tuple[Any, list[str]]]:
        """Open a page without cookies; yield it with the complaints of the browser's console."""
        context = self._browser.new_context(base_url=f"http://localhost:{port}", **manners)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.extend([said.text] * (said.type == "error")))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        try:
            yield page, complaints
        finally:
            context.close()

    async def browse(
        self,
        dsn: str,
        steps: Callable[..., None],
        tolerated: str = "",
        databases: tuple[ShownDatabase, ...] = (),
        **manners: Any,
    ) -> None:
        """Serve a dashboard, and run the steps of a test in the browser's thread.

        Args:
            dsn: The database.
            steps: Gets a page of the browser.
            tolerated: A text of complaints that the steps cause.
            databases: The databases to serve, if there are several.
            manners: How the browser behaves.
        """

        def run(port: int) -> None:
            with self.opened(port, **manners) as (page, complaints):
                page.set_default_timeout(20_000)
                steps(page)
            assert [said for said in complaints if not tolerated or tolerated not in said] == []

        several = {"databases": databases} if databases else {}
        async with served(dsn, **KEY, **several) as browser:
            await deferToThread(lambda: self.thread.submit(run, browser.port).result())


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """The browser of this module."""
    if CHROMIUM is None and os.environ.get("TXQUEUE_TEST_REQUIRE") != "1":
        pytest.skip("no chromium: apt-get install chromium")
    with Chromium.started() as chromium:
        yield chromium


def paths(page: Any) -> list[str]:
    """Return the address of each page, and of a waiting, a failed and a running job."""
    found = [*MENU.titles, "/jobs/confirm?act=cancel&queue=mail", "/login", "/none"]
    found += [*DETAILS, "/jobs?tag=campaign&error=mailbox&state=failed"]
    for state in ("waiting", "failed", "assigned"):
        page.goto(f"/jobs?state={state}")
        found.append(page.evaluate("document.querySelector('tbody th a').getAttribute('href')"))
        found += [f"{found[-1]}/copy"] if state == "failed" else []
    return found


def expect_accessible(page: Any) -> None:
    """Expect no grave violation of axe-core's rules, in either theme: they differ in colours."""
    axe = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    run = f"async rules => {{ if (!window.axe) {{ {axe} }} return axe.run(document, rules) }}"
    for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.emulate_media(color_scheme=theme)
        found = page.evaluate(run, {**VIOLATIONS, **rules})
        grave = [each for each in found["violations"] if each["impact"] in GRAVE]
        said = [(each["id"], [node["html"] for node in each["nodes"][:3]]) for each in grave]
        assert said == [], (page.url, theme)


def expect_fitting(page: Any) -> None:
    """Expect that the page need not be scrolled sideways, also on a phone."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wide, shown = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
        assert wide <= shown, (page.url, width)


def look_at_each_page(page: Any) -> None:
    """Expect that each is accessible, and fits its window."""
    page.goto("/login?key=secret")
    for path in paths(page):
        page.goto(path)
        expect_accessible(page)
        expect_fitting(page)
        assert page.evaluate("document.querySelector('table:not(:has(> caption))')") is None, path


async def test_each_page_is_accessible_and_fits_its_window(
    sample: Database, chromium: Chromium
) -> None:
    """By axe-core's rules, and without scrolling sideways, also on a phone."""
    await chromium.browse(sample.dsn, look_at_each_page, tolerated="404")


@pytest.mark.skipif(FIREFOX is None, reason="no Firefox: apt-get install firefox-esr")
async def test_each_page_is_so_in_firefox(sample: Database, tmp_path: Path) -> None:
    """Whose windows are 450 pixels wide at least."""

    def look(port: int) -> None:
        with Firefox.started(str(FIREFOX), tmp_path, f"http://localhost:{port}") as page:
            look_at_each_page(page)

    async with served(sample.dsn, **KEY) as browser:
        await deferToThread(look, browser.port)


async def test_each_act_is_reachable_on_a_phone_without_scrolling_sideways(
    sample: Database, chromium: Chromium
) -> None:
    """Acts in tables and in folded parts too; the header is low, and names the current page."""

    def steps(page: Any) -> None:
        page.goto("/login?key=secret")
        for path in paths(page):
            page.goto(path)
            assert page.locator("header").bounding_box()["height"] < 80, path
            assert page.evaluate(OUTSIDE) == [], path
        for path, name in MENU.titles.items():
            page.goto(path)
            assert page.locator(".menu-key").inner_text().endswith(name)
            assert page.locator("header nav").is_hidden()

    await chromium.browse(sample.dsn, steps, tolerated="404", **PHONE)


@pytest.mark.parametrize("has_script", [True, False])
async def test_the_menu_of_a_phone_leads_to_each_page(
    sample: Database, chromium: Chromium, *, has_script: bool
) -> None:
    """With JavaScript and without it; with it, a field of the menu says why the next act is."""

    def steps(page: Any) -> None:
        page.goto("/login?key=secret")
        page.goto("/jobs")
        page.tap(".menu-key")
        page.tap("header nav >> text=Schedules")
        page.wait_for_url("**/schedules")
        page.tap(".menu-key")
        assert page.locator("#reason").is_visible() == has_script
        if has_script:
            page.fill("#reason", "a trial")
        page.tap(".menu-key")
        page.locator("tr", has_text="reindex").locator("button:text-is('Pause')").tap()
        page.wait_for_selector("text=The schedule reindex is paused")
        who = sample.value("select who from txqueue.action order by action_id desc limit 1")
        assert who.endswith(": a trial") == has_script

    await chromium.browse(sample.dsn, steps, java_script_enabled=has_script, **PHONE)


def edit_a_schedule(page: Any) -> None:
    """Preview wrong times, then right ones, and save these; what was typed stays."""
    page.goto("/schedules")
    page.click("a[aria-label='Edit nightly report']")
    page.fill("#f-expression", "0 99 * * *")
    page.fill("#f-times", "3")
    page.click("button:text-is('Preview')")
    page.wait_for_selector("#h-expression >> text=is not a cron expression")
    page.fill("#f-expression", "30 5 * * *")
    page.click("button:text-is('Preview')")
    page.wait_for_selector("ol.timeline li >> text=05:30:00")
    assert page.locator("ol.timeline li").count() == 3
    page.click("button:text-is('Save')")
    page.wait_for_selector("text=The schedule nightly report has new times")


def act_on_everything(page: Any) -> None:
    """Filter, cancel, retry a kind, pause, drain and pause a schedule, by links and buttons."""
    page.goto("/login?key=secret")
    page.goto("/jobs")
    page.select_option("select[name=state]", "assigned")
    page.fill("input[name=work_type]", "orders.sync")
    page.click("text=Filter")
    assert "state=assigned" in page.url
    page.locator("tbody th a").first.click()
    page.click("button:text-is('Cancel')")
    page.wait_for_selector("text=1 job told to stop")
    page.goto("/jobs")
    page.click("text=More filters")
    page.fill("input[name=tag]", "campaign=spring")
    page.fill("input[name=error]", "MAILBOX")
    page.click("button:text-is('Filter')")
    assert page.locator("tbody tr").count() == 2
    page.locator(".chip", has_text="Error: MAILBOX").click()
    assert "tag=campaign" in page.url
    assert page.locator("tbody tr").count() > 2
    page.goto("/failures")
    page.locator("li", has_text="502").locator("button:text-is('Retry all')").click()
    page.wait_for_selector("text=6 jobs retried")
    page.goto("/queues")
    page.locator("li", has_text="mail").locator("button:text-is('Pause')").first.click()
    page.wait_for_selector("text=The queue mail is paused")
    page.goto("/nodes")
    page.locator("li", has_text="app-1").locator("button:text-is('Drain')").click()
    page.wait_for_selector("text=Node app-1 is draining")
    page.goto("/schedules")
    page.locator("tr", has_text="reindex").locator("button:text-is('Pause')").first.click()
    page.wait_for_selector("text=The schedule reindex is paused")
    edit_a_schedule(page)
    page.goto("/queues")
    page.click("a:text-is('orders')")
    page.click("text=Change the limits")
    page.fill("input[name=concurrency]", "7")
    page.click("button:text-is('Set')")
    page.wait_for_selector("text=The limits of the queue orders are set")
    page.goto("/jobs?queue=legacy")
    page.click("text=Cancel all that match")
    page.click("button:text-is('Cancel 40 jobs')")
    page.wait_for_selector("text=40 jobs cancelled")
    page.goto("/actions")
    assert page.locator("tbody tr", has_text="developer").count() >= 6


@pytest.mark.parametrize("has_script", [True, False])
async def test_an_operator_acts_on_each_page(
    sample: Database, chromium: Chromium, *, has_script: bool
) -> None:
    """With JavaScript and without it."""
    wrong_form = "422"
    await chromium.browse(sample.dsn, act_on_everything, wrong_form, java_script_enabled=has_script)


async def test_an_open_page_shows_a_new_job_without_a_reload(
    sample: Database, chromium: Chromium
) -> None:
    """A chosen box stays chosen, and a text that is being typed stays."""

    def steps(page: Any) -> None:
        page.goto("/jobs?tenant=new")
        page.wait_for_selector("text=No job matches")
        page.evaluate("window.isSame = true")
        sample.value("select txqueue.enqueue('mail.welcome', '{}', tenant => 'new')")
        page.wait_for_selector("tbody tr")
        assert page.evaluate("window.isSame")

    await chromium.browse(sample.dsn, steps)


async def test_the_error_of_an_act_stays_on_the_page(sample: Database, chromium: Chromium) -> None:
    """Although the page has no address from which to refresh it."""
    shown = "The limit concurrency must be a number"

    def is_refresh(reply: Any) -> bool:
        return bool(reply.request.method == "GET" and "/act/limit" in reply.url)

    def steps(page: Any) -> None:
        page.goto("/login?key=secret")
        page.goto("/queues/queue?name=orders")
        page.click("text=Change the limits")
        page.fill("input[name=concurrency]", "many")
        with page.expect_response(is_refresh):
            page.click("button:text-is('Set')")
            page.wait_for_selector("h1")
        # The answer of the first refresh is dealt with before the second one begins.
        with page.expect_response(is_refresh):
            sample.value("select txqueue.enqueue('mail.welcome', '{}')")
        assert shown in page.inner_text("#content")

    await chromium.browse(sample.dsn, steps, "the server responded with a status of 4")


@pytest.fixture
def databases(sample: Database) -> tuple[ShownDatabase, ...]:
    """A database with something on each page, and one that is down."""
    down = "postgresql://127.0.0.1:1/archive"
    return ShownDatabase(sample.dsn, name="orders"), ShownDatabase(down, name="x" * 40)


async def test_the_list_of_databases_is_accessible_and_fits_its_window(
    sample: Database, chromium: Chromium, databases: tuple[ShownDatabase, ...]
) -> None:
    """And the switcher between them, opened, on pages of a database."""

    def steps(page: Any) -> None:
        page.goto("/login?key=secret")
        for path in ("/", "/databases/orders/", "/databases/orders/jobs?state=failed", "/none"):
            page.goto(path)
            page.click(".switch summary")
            expect_accessible(page)
            expect_fitting(page)

    await chromium.browse(sample.dsn, steps, "404", databases)


@pytest.mark.parametrize("has_script", [True, False])
async def test_the_switcher_leads_to_the_same_page_of_another_database(
    sample: Database, chromium: Chromium, databases: tuple[ShownDatabase, ...], *, has_script: bool
) -> None:
    """With JavaScript and without it."""
    shown = (*databases, ShownDatabase(sample.dsn, name="copy"))

    def steps(page: Any) -> None:
        page.goto("/")
        page.keyboard.press("?")
        page.click("a:text-is('orders') >> visible=true")
        page.wait_for_url("**/databases/orders/")
        page.click("nav >> text=Queues")
        page.wait_for_url("**/databases/orders/queues")
        page.click(".switch summary")
        page.click(".switch a:text-is('copy')")
        page.wait_for_url("**/databases/copy/queues")
        page.click(".switch summary")
        page.click("text=All databases")
        page.wait_for_selector("h1:has-text('Databases')")

    await chromium.browse(sample.dsn, steps, databases=shown, java_script_enabled=has_script)


@pytest.mark.parametrize("width", WIDTHS)
async def test_keys_lead_to_pages_and_to_the_search(
    sample: Database, chromium: Chromium, width: int
) -> None:
    """A question mark shows them; in a narrow window the search is in the menu, which opens."""

    def steps(page: Any) -> None:
        page.goto("/")
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("f")
        page.wait_for_url("**/failures")
        page.keyboard.press("/")
        page.keyboard.type("mail failed")
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs?queue=mail&state=failed")

    size = {"width": width, "height": 844}
    await chromium.browse(sample.dsn, steps, viewport=size)


async def test_hostile_texts_change_nothing_on_any_page(
    sample: Database, chromium: Chromium
) -> None:
    """No script runs, the browser reports no violation, and pages stay as wide as the window."""
    fill_with_hostile_texts(sample.dsn)

    def steps(page: Any) -> None:
        page.goto("/login?key=secret")
        page.goto("/jobs?work_type=hostile.kind")
        job = page.locator("tbody th a").first.get_attribute("href")
        name = urlencode({"name": HOSTILE})
        details = [f"/queues/queue?{name}", f"/types/type?{name}", f"/schedules/edit?{name}"]
        details.append("/types/type?name=hostile.kind")
        for path in [*MENU.titles, job, *details]:
            page.goto(path)
            assert page.title() != "hacked", path
            expect_fitting(page)

    await chromium.browse(sample.dsn, steps)


async def test_a_chart_shows_the_values_of_a_time(sample: Database, chromium: Chromium) -> None:
    """At the pointer, and by the arrow keys."""

    def steps(page: Any) -> None:
        page.goto("/?span=24h")
        points = page.locator(".points").first.locator("li[tabindex]")
        points.first.hover()
        assert "done" in points.first.locator("span").inner_text()
        page.mouse.move(0, 0)
        points.last.focus()
        page.keyboard.press("ArrowLeft")
        assert points.nth(-2).locator("span").is_visible()
        assert points.last.locator("span").is_hidden()

    await chromium.browse(sample.dsn, steps)


async def test_a_page_that_pauses_its_refresh_says_so(sample: Database, chromium: Chromium) -> None:
    """While a box is chosen."""

    def steps(page: Any) -> None:
        page.goto("/login?key=secret")
        page.goto("/jobs")
        page.locator("tbody input").first.check()
        sample.value("select txqueue.enqueue('mail.welcome', '{}')")
        page.wait_for_selector("body.held")
        page.locator("tbody input").first.uncheck()
        page.wait_for_selector("body:not(.held)")

    await chromium.browse(sample.dsn, steps)
