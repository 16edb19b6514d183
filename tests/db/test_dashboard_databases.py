"""One dashboard of several databases, on real ones: what each has, and that none harms another."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

from tests.browser import Browser
from tests.dashboards import log_in, served
from tests.db.masters import Master, master
from tests.db.test_dashboard import ACTS
from tests.fixtures.databases import Templates, fresh_database
from tests.waiting import eventually
from txqueue.web.acts import acting_routes
from txqueue.web.messages import Role, Route
from txqueue.web.pages.routes import MENU, index_routes, routes
from txqueue.web.settings import ShownDatabase

NAMES = ("one", "two")
TRICKS = ("/databases/%74wo/", "/databases/two/../one/", "/databases/two/%2e%2e/one/")
ADDRESS = re.compile(r'(?:href|action|src|data-base)="([^"#]*)')


@pytest.fixture
def two(migrated_database: str) -> Iterator[Master]:
    """A master's session on the other database."""
    with master(migrated_database) as session:
        yield session


@pytest.fixture
def shown(dsn: str, migrated_database: str) -> tuple[ShownDatabase, ...]:
    """Both databases."""
    return ShownDatabase(dsn, name="one"), ShownDatabase(migrated_database, name="two")


@contextmanager
def away(node: Master, dsn: str) -> Iterator[None]:
    """A database that accepts no connections, and has ended those it had."""
    name = parse_dsn(dsn)["dbname"]
    node.cursor.execute(f'alter database "{name}" with allow_connections false')
    node.cursor.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
    )
    try:
        yield
    finally:
        node.cursor.execute(f'alter database "{name}" with allow_connections true')


def card(text: str, name: str) -> str:
    """Return the part of the list that is about one database, its white space shortened."""
    found = re.search(rf'<li [^>]*id="d-{name}">.*?</li>', text, re.DOTALL)
    assert found is not None, text
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())


async def test_the_list_has_both_databases_with_their_figures(
    node: Master, two: Master, dsn: str, shown: tuple[ShownDatabase, ...]
) -> None:
    """Each with its own, and a link to its pages."""
    node.enqueue({}, {})
    two.enqueue({}, {}, {})
    two.take(1)
    async with served(dsn, databases=shown) as browser:
        page = await browser.get("/")
        jobs = [await browser.get(f"/databases/{name}/jobs") for name in NAMES]
    assert "one answers Running 0 Ready 2 Waiting 0" in card(page.text, "one")
    assert "two answers Running 1 Ready 2 Waiting 0" in card(page.text, "two")
    assert "Nodes alive 1" in card(page.text, "one")
    assert [each.text.count('id="j-') for each in jobs] == [2, 3]
    assert '<a href="/databases/two/">two</a>' in page.text


@pytest.mark.parametrize("base", ["", "/queue"])
async def test_all_addresses_stay_within_the_database(
    node: Master, two: Master, dsn: str, shown: tuple[ShownDatabase, ...], base: str
) -> None:
    """Apart from the list, the switcher and the files that all share; also below a base path."""
    async with served(dsn, databases=shown, base=base, key="secret") as browser:
        await browser.get("/login?key=secret")
        two.enqueue({})
        for path in [*MENU.titles, "/jobs/1", "/queues/queue?name=default", "/none"]:
            text = (await browser.get(f"/databases/two{path}")).text
            switcher = re.search(r'<details class="switch">.*?</details>', text, re.DOTALL)
            assert switcher is not None
            assert f'href="{base}/databases/one/' in switcher[0]
            found = set(ADDRESS.findall(text.replace(switcher[0], "")))
            others = {each for each in found if not each.startswith(f"{base}/databases/two")}
            others = {each for each in others if each and not each.startswith(f"{base}/static/")}
            assert others == {f"{base}/"}, path
        for path in ("/databases/three/", "/databases/", "/databases/twofold/", "/jobs", *TRICKS):
            assert (await browser.get(path)).status == 404, path
        moved = await browser.post("/databases/two/theme", {"theme": "dark", "back": "/jobs"})
        assert moved.headers["location"] == f"{base}/databases/two/jobs"
        assert f"Path={base or '/'}" in moved.headers["set-cookie"]


@pytest.mark.parametrize("act", ACTS[:2])
async def test_an_act_changes_and_is_recorded_in_its_own_database(  # noqa: PLR0917 - fixtures
    node: Master,
    two: Master,
    dsn: str,
    shown: tuple[ShownDatabase, ...],
    users: Mapping[str, Any],
    act: tuple[Any, ...],
) -> None:
    """And its page says so, on the way back."""
    path, fields, _, said = act
    for each in (node, two):
        each.enqueue({"tenant": "acme"}, {})
    async with served(dsn, databases=shown, users=users) as browser:
        await log_in(browser, "ann")
        answer = await browser.post(f"/databases/two{path}", {**fields, "back": "/actions"})
        assert answer.headers["location"] == "/databases/two/actions", answer.text
        assert said not in (await browser.get("/databases/one/actions")).text
        assert said in (await browser.get("/databases/two/actions")).text
    assert node.value("select count(*) from txqueue.action") == 0
    two.cursor.execute("select distinct who from txqueue.action")
    assert two.cursor.fetchall() == [("ann",)]


async def answer_of(browser: Browser, route: Route, path: str) -> int:
    """Return the status of a route's answer, with something in the place of its names."""
    path += route.pattern.replace("{id}", "1").replace("{name}", "dashboard.css")
    if route.method == "GET":
        return (await browser.get(path)).status
    return (await browser.post(path, {"act": "pause", "kind": "queue", "key": "mail"})).status


async def test_every_route_of_both_databases_asks_for_its_role(
    node: Master,
    two: Master,
    dsn: str,
    shown: tuple[ShownDatabase, ...],
    users: Mapping[str, Any],
) -> None:
    """One login is for all; a stranger sees no name of a database.

    Without users, the visitors of this host may look only.
    """
    ways = {"": index_routes()}
    ways |= {f"/databases/{name}": [*routes(), *acting_routes()] for name in NAMES}
    guarded = [
        (path, route)
        for path, found in ways.items()
        for route in found
        if route.role > Role.STRANGER
    ]
    async with served(dsn) as browser:
        for route in acting_routes():
            assert await answer_of(browser, route, "") == 403, route
    async with served(dsn, databases=shown, users=users) as browser:
        for path, route in guarded:
            status = await answer_of(browser, route, path)
            assert status == (303 if route.method == "GET" else 401), (path, route)
        for path in ("", *(f"/databases/{name}" for name in NAMES)):
            login = await browser.get(f"{path}/login")
            assert (login.status, 'class="switch"' in login.text) == (200, False)
            assert (await browser.get(f"{path}/events")).status == 204
        await log_in(browser, "bob")
        for path, route in guarded:
            status = await answer_of(browser, route, path)
            assert (status == 403) is (route.role == Role.OPERATOR), (path, route)
    for each in (node, two):
        assert each.value("select count(*) from txqueue.action") == 0


async def test_a_stranger_who_logs_in_comes_to_the_database_that_was_asked_for(
    node: Master,
    dsn: str,
    shown: tuple[ShownDatabase, ...],
    users: Mapping[str, Any],
) -> None:
    """And is logged in everywhere; a logout is one too."""
    async with served(dsn, databases=shown, users=users) as browser:
        asked = await browser.get("/databases/two/jobs")
        assert asked.headers["location"] == "/databases/two/login?back=%2Fjobs"
        right = {"name": "bob", "password": "correct horse", "back": "/jobs"}
        answer = await browser.post("/databases/two/login", right)
        assert answer.headers["location"] == "/databases/two/jobs"
        for path in ("/", "/databases/one/", "/databases/two/"):
            assert (await browser.get(path)).status == 200
        await browser.post("/databases/one/logout", {})
        assert (await browser.get("/databases/two/")).status == 303


async def test_a_database_that_goes_away_harms_no_other(
    node: Master, migrated_database: str, dsn: str, shown: tuple[ShownDatabase, ...]
) -> None:
    """The list shows its last figures and their age, until it is back."""
    with master(migrated_database) as session:
        session.enqueue({}, {})
    async with served(dsn, databases=shown) as browser:

        async def shows(text: str) -> bool:
            return text in card((await browser.get("/")).text, "two")

        await eventually(lambda: shows("two answers Running 0 Ready 2"))
        assert (await browser.get("/databases/two/")).status == 200
        with away(node, migrated_database):
            await eventually(lambda: shows("two down"))
            page = await browser.get("/")
            assert "one answers" in card(page.text, "one")
            assert "1 down" in page.text
            assert re.search(r"These figures are .+ old. Running 0 Ready 2", card(page.text, "two"))
            for path in MENU.titles:
                assert (await browser.get(f"/databases/one{path}")).status == 200
            assert (await browser.get("/databases/two/")).status == 200
            assert (await browser.get("/databases/two/tenants")).status == 503
        await eventually(lambda: shows("two answers"))
        assert (await browser.get("/databases/two/tenants")).status == 200


async def test_an_act_during_an_outage_says_so_and_succeeds_after_it(
    node: Master, migrated_database: str, dsn: str, shown: tuple[ShownDatabase, ...]
) -> None:
    """The form of a page that was shown meanwhile is as good as one from before."""
    act = {"act": "pause", "kind": "queue", "key": "default"}
    place = "/databases/two/queues"
    async with served(dsn, databases=shown, key="secret") as browser:
        await browser.get("/login?key=secret")
        with master(migrated_database):
            before = (await browser.get(place)).text
        with away(node, migrated_database):
            meanwhile = (await browser.get(place)).text
            assert "These figures are" in meanwhile
            form = {**act, "shown": mark_in(meanwhile)}
            refused = await browser.post("/databases/two/act/control", form)
            assert refused.status == 503
            assert "another database" not in refused.text
        assert mark_in(meanwhile) == mark_in(before)

        async def succeeds() -> bool:
            return (await browser.post("/databases/two/act/control", form)).status == 303

        await eventually(succeeds)
        assert "The queue default is paused" in (await browser.get(place)).text


def mark_in(page: str) -> str:
    """Return the mark of a database that the forms of a page carry."""
    found: list[str] = re.findall(r'name="shown" value="([^"]*)"', page)
    return found[0]


async def test_the_schema_of_each_database_is_its_own(node: Master, dsn: str) -> None:
    """A database without it says what to do."""
    shown = (ShownDatabase(dsn, name="one"), ShownDatabase(dsn, "shard_a", "two"))
    async with served(dsn, databases=shown) as browser:
        page = await browser.get("/")
        assert "txqueue migrate" in (await browser.get("/databases/two/")).text
    assert "one answers" in card(page.text, "one")
    assert "two no new figures" in card(page.text, "two")


def rename(cursor: Any, old: str, new: str) -> None:
    """Rename a database, and end its sessions first."""
    cursor.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", (old,)
    )
    cursor.execute(f'alter database "{old}" rename to "{new}"')


@contextmanager
def swapped(server_dsn: str, one: str, two: str) -> Iterator[None]:
    """Two databases, each under the name of the other."""
    names = [parse_dsn(each)["dbname"] for each in (one, two)]
    with closing(psycopg2.connect(server_dsn)) as session:
        session.autocommit = True
        for _ in range(2):
            for old, new in ((names[0], "away"), (names[1], names[0]), ("away", names[1])):
                rename(session.cursor(), old, new)
            if _ == 0:
                yield


PAUSE = {"kind": "queue", "key": "default", "act": "pause"}


@pytest.fixture
def third(server_dsn: str, templates: Templates) -> Iterator[str]:
    """A database without sessions of the test."""
    with fresh_database(server_dsn, templates.name(server_dsn)) as dsn:
        yield dsn


async def test_a_page_does_not_act_on_a_database_that_took_the_name(
    server_dsn: str, migrated_database: str, third: str, users: Mapping[str, Any]
) -> None:
    """While one dashboard runs; a page that is loaded after the swap acts."""
    async with served(migrated_database, users=users) as browser:
        await log_in(browser, "ann")
        mark = await browser.mark()
        with swapped(server_dsn, migrated_database, third):
            await eventually_reads(browser)
            refused = await browser.post("/act/control", {**PAUSE, "shown": mark})
            foreign = await browser.post("/act/control", {**PAUSE, "shown": f"x{mark}"})
            acted = await browser.post("/act/control", PAUSE)
    assert refused.status == foreign.status == 409
    assert "another database than the one that has its name now" in refused.text
    assert "another database than this dashboard serves now" in foreign.text
    assert acted.status == 303


async def eventually_reads(browser: Browser) -> None:
    """Wait until the dashboard has connected again."""

    async def reads() -> bool:
        return (await browser.get("/jobs")).status == 200 and bool(await browser.mark())

    await eventually(reads)


async def test_a_form_without_the_mark_of_its_page_is_refused(node: Master, ann: Browser) -> None:
    """Nothing is changed."""
    for fields in (PAUSE, {"name": "x"}):
        path = "/act/control" if fields is PAUSE else "/schedules/edit"
        answer = await ann.post(path, {**fields, "shown": ""})
        assert answer.status == 409
        assert "does not tell which database" in answer.text
    assert node.value("select count(*) from txqueue.action") == 0
