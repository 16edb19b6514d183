"""The dashboard over HTTP on a real database: its pages, its acts, and who may do what."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.web.client import Agent
from twisted.web.http_headers import Headers

from tests.browser import Body, Browser, body_of
from tests.dashboards import served
from tests.db.masters import Master
from tests.db.test_parents import end, put
from tests.waiting import eventually, running_reactor
from txqueue.errors import Refused
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.web.acts import acting_routes
from txqueue.web.logins import parsed_proxy, read_users, user_line
from txqueue.web.messages import Role
from txqueue.web.pages.routes import MENU, routes
from txqueue.web.service import Dashboard
from txqueue.web.settings import DashboardSettings, ShownDatabase
from txqueue.wire.endpoints import Endpoint

PASSWORD = "correct horse"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe" + "x" * 300


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """An operator and a viewer, with passwords that are fast to check."""
    file = tmp_path_factory.mktemp("users") / "users"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txqueue.web.logins._N", 2)
        lines = [user_line("ann", "operator", PASSWORD), user_line("bob", "viewer", PASSWORD)]
        file.write_text("\n".join(lines))
        file.chmod(0o600)
        yield read_users(file)


async def log_in(browser: Browser, name: str) -> None:
    """Log a user in."""
    answer = await browser.post("/login", {"name": name, "password": PASSWORD})
    assert (answer.status, answer.headers["location"]) == (303, f"{browser.base}/")


@pytest.mark.parametrize("path", [*MENU.titles, "/jobs/confirm?act=cancel"])
async def test_each_page_is_shown_on_this_host(node: Master, dsn: str, path: str) -> None:
    """While there are no users; with the headers that keep other sites out."""
    node.enqueue({"group": "one"}, {"tenant": "acme"}, {})
    node.take(1)
    async with served(dsn) as browser:
        answer = await browser.get(path)
    assert answer.status == 200, answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert '<form method="post" action="/act/' not in answer.text


async def test_a_job_has_a_page_that_says_why_it_does_not_run(node: Master, dsn: str) -> None:
    """With a link to what blocks it."""
    [first, second] = node.enqueue({"group": "one"}, {"group": "one"})
    node.take()
    async with served(dsn) as browser:
        answer = await browser.get(f"/jobs/{second}")
    assert "Why it does not run" in answer.text
    assert f'href="/jobs/{first}">job {first}</a>' in answer.text


async def test_a_job_s_page_has_the_log_of_its_failed_attempts(node: Master, dsn: str) -> None:
    """Below each that has one, as harmless text, next to the class of its error."""
    (job_id,) = node.enqueue({})
    node.settle(node.claim()[0], "retry", delay=0, error="x")
    more = {"error_class": "shop.errors.CardDeclined", "log": f"one\n{HOSTILE}"}
    node.settle(node.claim()[0], "failed", error="x", **more)
    async with served(dsn) as browser:
        text = (await browser.get(f"/jobs/{job_id}")).text
    assert "Log of attempt 1" not in text
    assert "Log of attempt 2</summary>" in text
    assert "shop.errors.CardDeclined" in text
    assert "one\n&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m" in text


async def test_a_callback_s_page_has_the_progress_of_its_batch(node: Master, dsn: str) -> None:
    """While it waits and after its end, also of more jobs than the page lists."""
    ids = node.enqueue(*[{} for _ in range(25)])
    callback = put(node, ids, after_any_end=True)
    end(node, "done", ids[0])
    end(node, "failed", ids[1])
    async with served(dsn) as browser:
        waiting = (await browser.get(f"/jobs/{callback}")).text
        for job_id in ids[2:]:
            end(node, "done", job_id)
        end(node, "done", callback)
        ended = (await browser.get(f"/jobs/{callback}")).text
        alone = (await browser.get(f"/jobs/{ids[0]}")).text
    assert "2 of 25 jobs have ended: 1 done, 1 failed" in waiting
    assert '<progress max="25" value="2"' in waiting
    assert "and 5 more" in waiting
    assert "25 of 25 jobs have ended: 24 done, 1 failed" in ended
    assert "<progress" not in alone


async def test_a_callback_s_page_does_without_a_count_that_takes_too_long(
    node: Master, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the page is shown."""

    def refuse(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
        yield Question("select 1")
        raise Refused("the query took too long", "try again")

    monkeypatch.setattr("txqueue.web.pages.job_details.about_batch", refuse)
    callback = put(node, node.enqueue({}, {}), after_any_end=True)
    async with served(dsn) as browser:
        answer = await browser.get(f"/jobs/{callback}")
    assert answer.status == 200
    assert "Parents and children" in answer.text
    assert "<progress" not in answer.text


@pytest.mark.parametrize("number", ["0", "999999", "9" * 18, "9" * 30, "x", "1;drop"])
async def test_an_unknown_job_is_not_found(node: Master, dsn: str, number: str) -> None:
    """Whatever stands in its place."""
    async with served(dsn) as browser:
        assert (await browser.get(f"/jobs/{number}")).status == 404


async def test_jobs_are_filtered_by_the_address(node: Master, dsn: str) -> None:
    """By state, queue, type, tenant and group; pages lead on."""
    ids = node.enqueue(*({"tenant": "acme" if each % 2 else "other"} for each in range(60)))
    async with served(dsn) as browser:
        first = await browser.get("/jobs?tenant=acme")
        page = await browser.get("/jobs")
        second = await browser.get(f"/jobs?after={ids[10]}")
    assert f'id="j-{ids[1]}"' in first.text
    assert f'id="j-{ids[2]}"' not in first.text
    assert f"/jobs?after={ids[10]}" in page.text
    assert f'id="j-{ids[9]}"' in second.text
    assert f'id="j-{ids[10]}"' not in second.text


@pytest.mark.parametrize("route", acting_routes(), ids=lambda route: route.pattern)
async def test_no_acting_route_serves_strangers_or_viewers(
    node: Master, dsn: str, users: Mapping[str, Any], route: Any
) -> None:
    """Nothing happens, and nothing is recorded."""
    fields = {"act": "pause", "kind": "queue", "key": "mail", "name": "node", "id": "1"}
    async with served(dsn) as browser:
        assert (await browser.post(route.pattern, fields)).status == 403
    async with served(dsn, users=users) as browser:
        assert (await browser.post(route.pattern, fields)).status == 401
        await log_in(browser, "bob")
        assert (await browser.post(route.pattern, fields)).status == 403
    assert node.value("select count(*) from txqueue.action") == 0


def test_every_route_that_posts_acts_or_is_about_the_visitor() -> None:
    """So that the test above sees all that change anything."""
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
    ("/act/jobs", {"act": "set_priority", "id": "1", "priority": "9"}, "priority", "1 job changed"),
    ("/act/jobs", {"act": "cancel", "all": "1", "tenant": "acme"}, "cancel", "1 job cancelled"),
    ("/act/node", {"act": "drain", "name": "node"}, "drain", "Node node drains"),
]


@pytest.mark.parametrize("act", ACTS)
async def test_an_operator_acts_and_the_act_has_the_operators_name(
    node: Master, dsn: str, users: Mapping[str, Any], act: tuple[Any, ...]
) -> None:
    """The page after it says once what has happened."""
    path, fields, what, said = act
    node.enqueue({"tenant": "acme"}, {})
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        answer = await browser.post(path, {**fields, "back": "/actions"})
        assert (answer.status, answer.headers["location"]) == (303, "/actions"), answer.text
        first, second = await browser.get("/actions"), await browser.get("/actions")
    node.cursor.execute("select who, what from txqueue.action")
    acts = node.cursor.fetchall()
    assert {who for who, _ in acts} == {"ann"}
    assert all(what in each for _, each in acts)
    assert said in first.text
    assert said not in second.text


async def test_failures_are_retried_by_kind(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """With the number that is shown."""
    node.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, weight, priority, lane,"
        " state, work_type, queue, payload, fingerprint, failed_at, finished_at, error)"
        " select number, now(), now(), now(), 1, 4, 0, 'failed', 'test.kind', 'default', '{}',"
        " 'abc', now(), now(), 'Oops' from generate_series(1001, 1003) as number"
    )
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        page = await browser.get("/failures")
        await browser.post("/act/failures", {"act": "retry", "fingerprint": "abc"})
        after = await browser.get("/")
    assert "3 failed" in page.text
    assert "3 jobs retried" in after.text
    assert node.value("select count(*) from txqueue.job where state = 'failed'") == 0


@pytest.mark.parametrize(
    ("act", "done"), [("retry", "1 job retried"), ("postpone", "1 job postponed")]
)
async def test_an_act_on_a_kind_of_failure_says_what_it_leaves_unchanged(
    node: Master, dsn: str, users: Mapping[str, Any], act: str, done: str
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
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        for path, fields in (
            ("/act/failures", {"act": act, "fingerprint": "abc", "minutes": "5"}),
            ("/act/jobs", {"act": "retry", "id": str(failed)}),
        ):
            await browser.post(path, fields)
            after = await browser.get("/")
            assert reason in after.text
            assert (done in after.text) is (path == "/act/failures")
    assert node.value("select state::text from txqueue.job where job_id = %s", failed) == "failed"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/act/jobs", {"act": "explode", "id": "1"}),
        ("/act/jobs", {}),
        ("/act/jobs", {"act": "set_priority", "id": "1", "priority": "10"}),
        ("/act/control", {"act": "pause", "kind": "moon", "key": "x"}),
        ("/act/control", {"act": "pause", "kind": "queue"}),
        ("/act/limit", {"kind": "queue", "key": "mail", "rate": "fast"}),
        ("/act/failures", {"act": "postpone", "fingerprint": "x", "minutes": "-1"}),
    ],
)
async def test_a_wrong_form_is_refused_with_what_is_wrong(
    node: Master, dsn: str, users: Mapping[str, Any], path: str, fields: dict[str, object]
) -> None:
    """Nothing is changed."""
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        answer = await browser.post(path, fields)
    assert answer.status == 400
    assert 'class="big"' in answer.text
    assert node.value("select count(*) from txqueue.action") == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "", "origin": "https://evil.example"},
        {"sec-fetch-site": "", "origin": "null"},
        {"sec-fetch-site": ""},
    ],
)
async def test_a_form_of_another_site_is_refused(
    node: Master, dsn: str, users: Mapping[str, Any], headers: dict[str, str]
) -> None:
    """Even with an operator's cookie."""
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        pause = {"act": "pause", "kind": "queue", "key": "mail"}
        assert (await browser.post("/act/control", pause, **headers)).status == 403
        own = {"sec-fetch-site": "", "origin": f"http://localhost:{browser.port}"}
        assert (await browser.post("/act/control", pause, **own)).status == 303
    assert node.value("select count(*) from txqueue.action") == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:80", 200),
        ("queue.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:80", 421),
    ],
)
async def test_only_known_host_names_are_answered(
    node: Master, dsn: str, host: str, status: int
) -> None:
    """A name that another site makes point here (DNS rebinding) is not."""
    async with served(dsn, hosts=frozenset({"queue.example"})) as browser:
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
    node: Master, dsn: str, users: Mapping[str, Any], back: str
) -> None:
    """Whatever the form says."""
    async with served(dsn, users=users) as browser:
        answer = await browser.post("/theme", {"theme": "dark", "back": back})
    assert answer.headers["location"] == "/"


async def test_hostile_content_is_shown_as_text(node: Master, dsn: str) -> None:
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
    async with served(dsn) as browser:
        texts = [(await browser.get(path)).text for path in MENU.titles]
        texts.append((await browser.get(f"/jobs/{job_id}")).text)
    assert sum("&lt;script&gt;alert" in text for text in texts) >= 5
    for text in texts:
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


async def test_a_redacted_payload_stays_redacted(node: Master, dsn: str) -> None:
    """The page says so."""
    node.publish("secret.kind", policy={"redacted": True})
    job_id = node.value("select txqueue.enqueue('secret.kind', '{\"card\": \"4111\"}')")
    async with served(dsn) as browser:
        text = (await browser.get(f"/jobs/{job_id}")).text
    assert "4111" not in text
    assert "redacted" in text


async def test_without_login_a_page_leads_to_the_login(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """Once users are configured; files that the login page needs are sent."""
    async with served(dsn, users=users) as browser:
        answer = await browser.get("/jobs?queue=a%26b")
        location = "/login?back=%2Fjobs%3Fqueue%3Da%2526b"
        assert (answer.status, answer.headers["location"]) == (303, location)
        assert (await browser.get("/")).headers["location"] == "/login"
        assert (await browser.get("/login")).status == 200
        assert (await browser.get("/static/dashboard.css")).status == 200
        assert (await browser.get("/events")).status == 204


async def test_a_login_leads_to_the_page_that_was_asked_for(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """Also after a wrong password, and never to another site."""
    back = "/jobs?queue=a%26b"
    async with served(dsn, users=users) as browser:
        asked = (await browser.get(back)).headers["location"]
        form = {"name": "ann", "password": "guess", "back": back}
        for answer in (await browser.get(asked), await browser.post("/login", form)):
            assert back in re.findall(r'name="back" value="([^"]+)"', answer.text)
        form["password"] = PASSWORD
        assert (await browser.post("/login", form)).headers["location"] == back
        form["back"] = "//evil.example"
        assert (await browser.post("/login", form)).headers["location"] == "/"


async def test_a_wrong_password_does_not_log_in(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """After some tries, each must wait; the cookie of a login cannot be read by scripts."""
    async with served(dsn, users=users) as browser:
        for _ in range(5):
            wrong = await browser.post("/login", {"name": "ann", "password": "guess"})
            assert wrong.status == 401
        waits = await browser.post("/login", {"name": "ann", "password": PASSWORD})
        assert waits.status == 429
        assert "Too many tries" in waits.text
        right = await browser.post("/login", {"name": "bob", "password": PASSWORD})
        assert "httponly" in right.headers["set-cookie"].lower()
        assert (await browser.get("/")).status == 200
        await browser.post("/logout", {})
        assert (await browser.get("/")).status == 303


async def test_a_stranger_cannot_forge_the_header_of_a_proxy(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """Only the named proxy is believed, which no caller of a plain port is."""
    proxy = parsed_proxy("www-data:X-Forwarded-User")
    async with served(dsn, users=users, proxy=proxy) as browser:
        answer = await browser.send("GET", "/", {}, {"x-forwarded-user": "ann"})
        assert answer.status == 303


async def test_over_a_unix_socket_the_account_acts(node: Master, dsn: str, tmp_path: Path) -> None:
    """As over the admin endpoint."""
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
        await eventually(path.exists)
        agent = Agent.usingEndpointFactory(running_reactor(), Socket())
        response = await agent.request(b"GET", b"http://queue/")
        assert "may act" in await body_of(response)
    finally:
        await dashboard.stopService()


async def test_an_open_page_is_told_of_a_new_job(node: Master, dsn: str) -> None:
    """Until it closes; then nothing looks at the database any more."""
    async with served(dsn) as browser:
        agent = Agent(running_reactor())
        address = f"http://127.0.0.1:{browser.port}/events".encode()
        response: Any = await agent.request(b"GET", address, Headers({"host": ["localhost"]}))
        events = Body()
        response.deliverBody(events)
        await eventually(lambda: "event: changed" in events.text)
        await eventually(lambda: events.text.count("changed") >= 2)
        count = events.text.count("changed")
        node.enqueue({})
        await eventually(lambda: events.text.count("changed") > count)
        assert events.transport is not None
        events.transport.loseConnection()
        await events.ended


async def test_a_body_that_is_too_long_is_not_read(node: Master, dsn: str) -> None:
    """The connection ends."""
    async with served(dsn) as browser:
        with pytest.raises(Exception, match=r"."):
            await browser.post("/theme", {"theme": "x" * 2_000_000})
