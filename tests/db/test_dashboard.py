"""The dashboard over HTTP on a real database: its pages, its acts, and who may do what."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.web.client import Agent
from twisted.web.http_headers import Headers

from tests.browser import Body, Browser, body_of
from tests.dashboards import PASSWORD, served
from tests.db.masters import Master
from tests.db.test_parents import end, put
from tests.waiting import eventually, running_reactor
from txqueue.web import service
from txqueue.web.acts import acting_routes
from txqueue.web.logins import parsed_proxy
from txqueue.web.messages import Role
from txqueue.web.pages.routes import MENU, routes
from txqueue.web.service import Dashboard
from txqueue.web.settings import DashboardSettings, ShownDatabase
from txqueue.web.site import LONGEST_BODY
from txqueue.wire.endpoints import Endpoint

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe" + "x" * 300


@pytest.mark.parametrize("path", [*MENU.titles, "/jobs/confirm?act=cancel"])
async def test_each_page_is_shown_on_this_host(node: Master, browser: Browser, path: str) -> None:
    """While there are no users; with the headers that keep other sites out."""
    node.enqueue({"group": "one"}, {"tenant": "acme"}, {})
    node.take(1)
    answer = await browser.get(path)
    assert answer.status == 200, answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert '<form method="post" action="/act/' not in answer.text


async def test_a_job_has_a_page_that_says_why_it_does_not_run(
    node: Master, browser: Browser
) -> None:
    """With a link to what blocks it."""
    [first, second] = node.enqueue({"group": "one"}, {"group": "one"})
    node.take()
    answer = await browser.get(f"/jobs/{second}")
    assert "Why it does not run" in answer.text
    assert f'href="/jobs/{first}">job {first}</a>' in answer.text


async def test_a_job_s_page_has_the_log_of_its_failed_attempts(
    node: Master, browser: Browser
) -> None:
    """Below each that has one, as harmless text, next to the class of its error."""
    (job_id,) = node.enqueue({})
    node.settle(node.claim()[0], "retry", delay=0, error="x")
    more = {"error_class": "shop.errors.CardDeclined", "log": f"one\n{HOSTILE}"}
    node.settle(node.claim()[0], "failed", error="x", **more)
    text = (await browser.get(f"/jobs/{job_id}")).text
    assert "Log of attempt 1" not in text
    assert "Log of attempt 2</summary>" in text
    assert "shop.errors.CardDeclined" in text
    assert "one\n&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m" in text


async def test_a_callback_s_page_has_the_progress_of_its_batch(
    node: Master, browser: Browser
) -> None:
    """While it waits and after its end, also of more jobs than the page lists."""
    ids = node.enqueue(*[{} for _ in range(25)])
    callback = put(node, ids, after_any_end=True)
    end(node, "done", ids[0])
    end(node, "failed", ids[1])
    waiting = (await browser.get(f"/jobs/{callback}")).text
    for job_id in ids[2:]:
        end(node, "done", job_id)
    end(node, "done", callback)
    ended = (await browser.get(f"/jobs/{callback}")).text
    alone = (await browser.get(f"/jobs/{ids[0]}")).text
    assert "2 of 25 jobs have ended: 1 done, 1 failed" in waiting
    assert '<progress max="25" value="2"' in waiting
    assert f'href="/jobs?batch={callback}&amp;state=failed"' in waiting
    assert "1 failed</span>" in waiting
    assert "25 of 25 jobs have ended: 24 done, 1 failed" in ended
    assert "<progress" not in alone


@pytest.mark.parametrize("number", ["0", "999999", "9" * 18, "9" * 30, "x", "1;drop"])
async def test_an_unknown_job_is_not_found(node: Master, browser: Browser, number: str) -> None:
    """Whatever stands in its place."""
    assert (await browser.get(f"/jobs/{number}")).status == 404


def test_every_route_that_posts_acts_or_is_about_the_visitor() -> None:
    """So that the test of all roles sees what changes anything."""
    others = [route for route in routes() if route.method != "GET"]
    assert {route.pattern for route in others} == {"/login", "/logout", "/theme"}
    assert {route.role for route in acting_routes()} == {Role.OPERATOR}


ACTS: list[tuple[str, dict[str, object], str, str]] = [
    ("/act/control", {"act": "pause", "kind": "queue", "key": "mail"}, "pause", "is paused"),
    (
        "/act/limit",
        {"kind": "queue", "key": "mail", "concurrency": "3", "rate": ""},
        "limit",
        "limits of",
    ),
    ("/act/jobs", {"act": "cancel", "id": ["1", "2"]}, "cancel", "2 jobs cancelled"),
    (
        "/act/jobs",
        {"act": "set_priority", "id": "1", "priority": "9"},
        "priority",
        "priority 9 now",
    ),
    ("/act/jobs", {"act": "move", "id": "1", "to": "mail"}, "move", "queue mail now"),
    ("/act/jobs", {"act": "reschedule", "id": "1", "to": "2h"}, "reschedule", "not to start"),
    ("/act/jobs", {"act": "delete_jobs", "id": "1"}, "delete", "1 job deleted"),
    ("/act/jobs", {"act": "cancel", "all": "1", "tenant": "acme"}, "cancel", "1 job cancelled"),
    ("/act/node", {"act": "drain", "name": "node"}, "drain", "Node node is draining"),
]


@pytest.mark.parametrize("act", ACTS)
async def test_an_operator_acts_and_the_act_has_the_operators_name(
    node: Master, ann: Browser, act: tuple[Any, ...]
) -> None:
    """The page after it says once what has happened."""
    path, fields, what, said = act
    node.enqueue({"tenant": "acme"}, {})
    answer = await ann.post(path, {**fields, "why": "trial", "back": "/actions"})
    assert (answer.status, answer.headers["location"]) == (303, "/actions"), answer.text
    first, second = await ann.get("/actions"), await ann.get("/actions")
    node.cursor.execute("select who, what from txqueue.action")
    acts = node.cursor.fetchall()
    assert {who for who, _ in acts} == {"ann: trial"}
    assert all(what in each for _, each in acts)
    assert said in first.text
    assert said not in second.text


async def test_failures_are_retried_by_kind(node: Master, ann: Browser) -> None:
    """With the number that is shown."""
    node.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, weight, priority, lane,"
        " state, work_type, queue, payload, fingerprint, failed_at, finished_at, error)"
        " select number, now(), now(), now(), 1, 4, 0, 'failed', 'test.kind', 'default', '{}',"
        " 'abc', now(), now(), 'Oops' from generate_series(1001, 1003) as number"
    )
    page = await ann.get("/failures")
    await ann.post("/act/failures", {"act": "retry", "fingerprint": "abc"})
    after = await ann.get("/")
    assert "3 failed" in page.text
    assert "3 jobs retried" in after.text
    assert node.value("select count(*) from txqueue.job where state = 'failed'") == 0


@pytest.mark.parametrize(
    ("act", "done"), [("retry", "1 job retried"), ("postpone", "1 job postponed")]
)
async def test_an_act_on_a_kind_of_failure_says_what_it_leaves_unchanged(
    node: Master, ann: Browser, act: str, done: str
) -> None:
    """With the reason, as a retry of that job does."""
    failed, _ = node.enqueue({"unique": "k"}, {})
    for chunk in node.claim():
        node.settle(chunk, "failed", error="Oops")
    node.cursor.execute("update txqueue.job set fingerprint = 'abc' where state = 'failed'")
    (holder,) = node.enqueue({"unique": "k"})
    reason = (
        f"Job {failed}: it failed for good after 1 attempt: Oops; job {holder} holds its unique"
    )
    for path, fields in (
        ("/act/failures", {"act": act, "fingerprint": "abc", "minutes": "5"}),
        ("/act/jobs", {"act": "retry", "id": str(failed)}),
    ):
        await ann.post(path, fields)
        after = await ann.get("/")
        assert reason in after.text
        assert (done in after.text) is (path == "/act/failures")
    assert node.value("select state::text from txqueue.job where job_id = %s", failed) == "failed"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/act/jobs", {"act": "explode", "id": "1"}),
        ("/act/jobs", {}),
        ("/act/jobs", {"act": "set_priority", "id": "1", "priority": "10"}),
        ("/act/jobs", {"act": "reschedule", "id": "1", "to": "soon"}),
        ("/act/control", {"act": "pause", "kind": "moon", "key": "x"}),
        ("/act/control", {"act": "pause", "kind": "queue"}),
        ("/act/limit", {"kind": "queue", "key": "mail", "rate": "fast"}),
        ("/act/failures", {"act": "postpone", "fingerprint": "x", "minutes": "-1"}),
    ],
)
async def test_a_wrong_form_is_refused_with_what_is_wrong(
    node: Master, ann: Browser, path: str, fields: dict[str, object]
) -> None:
    """Nothing is changed."""
    answer = await ann.post(path, fields)
    assert answer.status == 400
    assert 'class="big"' in answer.text
    assert node.value("select count(*) from txqueue.action") == 0


async def test_a_stale_form_keeps_the_limits_of_others(node: Master, ann: Browser) -> None:
    """It sets the limits that differ from those that it showed, and says if none does."""
    node.value("select txqueue.set_limit('queue', 'mail', 7, 2, null, null, null, 'bob')")
    shown = (await ann.get("/queues/queue?name=mail")).text
    assert 'name="shown_concurrency" value="7"' in shown
    stale = {"kind": "queue", "key": "mail", "concurrency": "", "shown_concurrency": ""}
    await ann.post("/act/limit", {**stale, "rate": "5", "shown_rate": ""})
    limits = "select array[concurrency, rate] from txqueue.control where key = 'mail'"
    assert node.value(limits) == [7, 5]
    await ann.post("/act/limit", stale)
    assert "No limit was changed." in (await ann.get("/queues")).text


async def test_a_form_of_another_site_is_refused(node: Master, ann: Browser) -> None:
    """Even with an operator's cookie."""
    pause = {"act": "pause", "kind": "queue", "key": "mail"}
    foreign = {"sec-fetch-site": "", "origin": "https://evil.example"}
    for headers in ({"sec-fetch-site": "cross-site"}, foreign, {"sec-fetch-site": ""}):
        assert (await ann.post("/act/control", pause, **headers)).status == 403
    own = {"sec-fetch-site": "", "origin": f"http://localhost:{ann.port}"}
    assert (await ann.post("/act/control", pause, **own)).status == 303
    assert node.value("select count(*) from txqueue.action") == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("[::1]:80", 200),
        ("queue.EXAMPLE:8080", 200),
        ("localhost.evil.example", 421),
    ],
)
async def test_only_known_host_names_are_answered(
    node: Master, dsn: str, host: str, status: int
) -> None:
    """A name that another site makes point here (DNS rebinding) is not."""
    async with served(dsn, hosts=frozenset({"Queue.example"})) as browser:
        assert (await browser.get("/", host=host)).status == status


@pytest.mark.parametrize(
    "path",
    [
        *("/../static/dashboard.css", "//evil.example", "/static/..%2f..%2fservice.py"),
        *("/%2e%2e/%2e%2e/etc/passwd", "/static/nothing.css", "/static/%00", "/act/control"),
        *("/jobs/", "/JOBS"),
    ],
)
async def test_tricks_with_paths_lead_nowhere(node: Master, dsn: str, path: str) -> None:
    """Under a base path too."""
    async with served(dsn) as browser:
        assert (await browser.get(path)).status in (404, 405)
    async with served(dsn, base="/queue") as browser:
        assert (await browser.get(path)).status in (404, 405)


async def test_under_a_base_path_all_addresses_have_it(node: Master, dsn: str) -> None:
    """And nothing outside is answered."""
    async with served(dsn, base="/queue") as browser:
        page = await browser.get("/")
        browser.base = ""
        assert (await browser.get("/")).status == 404
        assert (await browser.get("/queueing")).status == 404
    links = [part.partition('"')[0] for part in page.text.split('href="')[1:]]
    assert all(link.startswith(("/queue/", "#")) for link in links), links


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example"])
async def test_an_act_never_leads_to_another_site(
    node: Master, visitor: Browser, back: str
) -> None:
    """Whatever the form says."""
    answer = await visitor.post("/theme", {"theme": "dark", "back": back})
    assert answer.headers["location"] == "/"


async def test_hostile_content_is_shown_as_text(node: Master, browser: Browser) -> None:
    """On each page, in each field that a client can fill."""
    payload = json.dumps({"text": HOSTILE.replace("\x1b", "\\u001b")})
    job_id = node.value(
        "select txqueue.enqueue('test.kind', %s, \"group\" => %s, tenant => %s, queue => %s)",
        payload,
        *[HOSTILE[:100]] * 3,
    )
    node.cursor.execute(
        "update txqueue.job set error = %s, fingerprint = 'x' where job_id = %s", (HOSTILE, job_id)
    )
    node.value("select txqueue.pause('group', %s, %s)", HOSTILE[:100], HOSTILE[:100])
    texts = [(await browser.get(path)).text for path in MENU.titles]
    texts.append((await browser.get(f"/jobs/{job_id}")).text)
    assert sum("&lt;script&gt;alert" in text for text in texts) >= 5
    for text in texts:
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


async def test_without_login_a_page_leads_to_the_login(
    node: Master, visitor: Browser, users: Mapping[str, Any]
) -> None:
    """Once users are configured; files that the login page needs are sent."""
    answer = await visitor.get("/jobs?queue=a%26b")
    location = "/login?back=%2Fjobs%3Fqueue%3Da%2526b"
    assert (answer.status, answer.headers["location"]) == (303, location)
    assert (await visitor.get("/")).headers["location"] == "/login"
    assert (await visitor.get("/login")).status == 200
    assert (await visitor.get("/static/dashboard.css")).status == 200
    assert (await visitor.get("/events")).status == 204


async def test_a_login_leads_to_the_page_that_was_asked_for(node: Master, visitor: Browser) -> None:
    """Also after a wrong password, and never to another site."""
    back = "/jobs?queue=a%26b"
    asked = (await visitor.get(back)).headers["location"]
    form = {"name": "ann", "password": "guess", "back": back}
    for answer in (await visitor.get(asked), await visitor.post("/login", form)):
        assert back in re.findall(r'name="back" value="([^"]+)"', answer.text)
    form["password"] = PASSWORD
    assert (await visitor.post("/login", form)).headers["location"] == back
    form["back"] = "//evil.example"
    assert (await visitor.post("/login", form)).headers["location"] == "/"


async def test_a_wrong_password_does_not_log_in(node: Master, visitor: Browser) -> None:
    """After some tries, each must wait; the cookie of a login cannot be read by scripts."""
    for _ in range(5):
        wrong = await visitor.post("/login", {"name": "ann", "password": "guess"})
        assert wrong.status == 401
    waits = await visitor.post("/login", {"name": "ann", "password": PASSWORD})
    assert waits.status == 429
    assert "Too many tries" in waits.text
    right = await visitor.post("/login", {"name": "bob", "password": PASSWORD})
    assert "httponly" in right.headers["set-cookie"].lower()
    assert (await visitor.get("/")).status == 200
    await visitor.post("/logout", {})
    assert (await visitor.get("/")).status == 303


async def test_a_stranger_cannot_forge_the_header_of_a_proxy(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """Only the named proxy is believed, which no caller of a plain port is."""
    proxy = parsed_proxy("www-data:X-Forwarded-User")
    async with served(dsn, users=users, proxy=proxy) as browser:
        answer = await browser.send("GET", "/", {}, {"x-forwarded-user": "ann"})
        assert answer.status == 303


async def test_over_a_unix_socket_the_account_acts(
    node: Master, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over the admin endpoint. The templates are compiled before a page is asked for."""
    compiled: list[str] = []
    monkeypatch.setattr(service, "compile_templates", lambda: compiled.append("all"))
    from twisted.internet.endpoints import UNIXClientEndpoint
    from twisted.web.iweb import IAgentEndpointFactory
    from zope.interface import implementer

    path = tmp_path / "web.sock"

    @implementer(IAgentEndpointFactory)
    class Socket:
        def endpointForURI(self, uri: object) -> UNIXClientEndpoint:
            return UNIXClientEndpoint(running_reactor(), str(path))

    dashboard = Dashboard(
        running_reactor(), DashboardSettings((ShownDatabase(dsn),), Endpoint(path))
    )
    dashboard.startService()
    try:
        await eventually(lambda: path.exists() and compiled == ["all"])
        agent = Agent.usingEndpointFactory(running_reactor(), Socket())
        response = await agent.request(b"GET", b"http://queue/")
        assert "may act" in await body_of(response)
    finally:
        await dashboard.stopService()


@pytest.mark.parametrize("name", ["", "one"])
async def test_an_open_page_is_told_of_a_new_job(node: Master, dsn: str, name: str) -> None:
    """Also the list of databases."""
    async with served(dsn, databases=(ShownDatabase(dsn, name=name),)) as browser:
        agent = Agent(running_reactor())
        address = f"http://127.0.0.1:{browser.port}/events".encode()
        response: Any = await agent.request(b"GET", address, Headers({"host": ["localhost"]}))
        events = Body()
        response.deliverBody(events)
        await eventually(lambda: events.text.count("event: changed") >= 2)
        count = events.text.count("changed")
        node.enqueue({})
        await eventually(lambda: events.text.count("changed") > count)
        assert events.transport is not None
        events.transport.loseConnection()
        await events.ended


async def test_a_body_that_is_too_long_is_answered(node: Master, browser: Browser) -> None:
    """One may be as long as a payload of 1 MiB when encoded."""
    assert (await browser.post("/theme", {"theme": "ü" * (1 << 19)})).status == 303
    answer = await browser.post("/theme", {"theme": "x" * LONGEST_BODY})
    assert (answer.status, "form has more than" in answer.text) == (413, True)
