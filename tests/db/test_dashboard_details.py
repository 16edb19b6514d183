"""The dashboard's pages of one queue and of one work type, and of the times of a schedule."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from tests.browser import Answer, Browser
from tests.dashboards import log_in, served
from tests.db.masters import Master
from tests.db.recurring import put, schedule
from txqueue.model.schedule import Cooldown, Cron, schedule_object
from txqueue.store.reads.dashboard import LOOKED_AT

MINUTES = """
    insert into txqueue.minute_mark (at, seconds, last_job, enqueued)
    select now() - interval '1 minute' * number, 60, 1, 1 from generate_series(1, 10) as number;
    insert into txqueue.minute_counts
        (at, queue, work_type, done, failed, wait_p50, wait_p95, run_p50, run_p95)
    select now() - interval '1 minute' * number, 'mail', kind, 60, 20, 0.25, 3, 12, 70
      from generate_series(1, 10) as number, unnest('{mail.welcome,mail.receipt}'::text[]) as kind;
"""
NAMES = [
    *("a/b", "..", "../../etc/passwd", "//evil.example", "50% off?a=b&c=d#e", " two  spaces "),
    *('"><script>alert(1)</script>', "\u202egnp.exe\u200f", "\x1b[31m", "x" * 200, "+", "ü 漢"),
]
TIMES: dict[str, object] = {
    "kind": "cron",
    "expression": "30 4 * * *",
    "zone": "Europe/Berlin",
    "jitter": "",
    "catch_up": "one",
    "until": "2100-01-01",
    "times": "7",
}


async def saved(browser: Browser, name: str) -> Answer:
    """Open the form of a schedule, fill it in and save it."""
    form = await browser.get(address("/schedules/edit", name))
    return await browser.post(
        address("/schedules/edit", name), {**TIMES, "seen": mark_in(form.text), "do": "save"}
    )


def mark_in(form: str) -> str:
    """Return the mark of the times that a form shows."""
    [mark] = re.findall('name="seen" value="([^"]+)"', form)
    return str(mark)


def address(page: str, name: str) -> str:
    """Return the address of a page about something with a name."""
    return f"{page}?{urlencode({'name': name})}"


def links(text: str, page: str) -> set[str]:
    """Return the names whose pages a text leads to."""
    found = set()
    for part in text.split(f'href="{page}?')[1:]:
        query = html.unescape(part.partition('"')[0])
        found.add(parse_qs(query, keep_blank_values=True)["name"][0])
    return found


def words(text: str) -> str:
    """Return the text that a page shows, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def test_a_queue_shows_its_jobs_limits_and_nodes(node: Master, browser: Browser) -> None:
    """How many of its jobs each node has; other queues are not counted."""
    node.enqueue(*[{}] * 5, {"queue": "mail"}, {"not_before": "2100-01-01T00:00:00Z"})
    node.take(2)
    node.value("select txqueue.set_limit('queue', 'default', 9, null, null, null, 0.2, 'ann')")
    node.cursor.execute("update txqueue.node_info set queues = '{default}'")
    page = await browser.get(address("/queues/queue", "default"))
    other = await browser.get(address("/queues/queue", "mail"))
    shown = words(page.text)
    assert "Running 2 Ready 3 Waiting 1 Failed 0" in shown
    assert "At a time 9 2 run" in shown
    assert "Kept for priority 7 and above 20.0 %" in shown
    assert f"{node.value('select name from txqueue.node_info')} alive 2" in shown
    assert "/jobs?queue=default&amp;state=ready" in page.text
    others = words(other.text)
    assert "Running 0 Ready 1 Waiting 0 Failed 0" in others
    assert "No live node serves the queue mail. Start a node with --queues mail." in others


@pytest.mark.parametrize("span", ["1h", "24h", "30d", "moon"])
async def test_a_queue_shows_what_its_jobs_did(node: Master, browser: Browser, span: str) -> None:
    """By work type too; in a list, of the last hour."""
    node.cursor.execute(MINUTES)
    node.enqueue({"queue": "mail", "work_type": "mail.welcome"})
    page = await browser.get(f"{address('/queues/queue', 'mail')}&span={span}")
    lists = [words((await browser.get(path)).text) for path in ("/queues", "/types")]
    shown = words(page.text)
    assert "1h 1,200 400 25.0 % 250 ms 3.0 s 12 s 1 min 10 s 120" in shown
    assert "Done a minute 120" in shown
    assert links(page.text, "/types/type") == {"mail.welcome", "mail.receipt"}
    assert "mail.welcome 600 200 25.0 % 250 ms" in shown
    assert 'aria-label="Jobs a second, last: done 2.0; failed attempts' in page.text
    assert "wait 250 ms / 3.0 s · run 12 s / 1 min 10 s" in lists[0]
    assert "250 ms 3.0 s 12 s 1 min 10 s" in lists[1]


async def test_a_work_type_shows_its_failures_and_schedules(node: Master, browser: Browser) -> None:
    """With links to them, to its queues and to its jobs."""
    node.cursor.execute(MINUTES)
    node.publish("mail.welcome", queue="mail", policy={"attempts": 7, "timeout": 30})
    [job_id] = node.enqueue({"work_type": "mail.welcome"})
    node.cursor.execute(
        "update txqueue.job set state = 'failed', error = 'mailbox full', fingerprint = 'abc',"
        " failed_at = now(), finished_at = now() where job_id = %s",
        (job_id,),
    )
    put(node, "greetings", Cron("0 3 * * *", "Europe/Berlin"), work_type="mail.welcome")
    page = await browser.get(address("/types/type", "mail.welcome"))
    kinds = await browser.get("/failures?work_type=mail.welcome")
    none = await browser.get("/failures?work_type=mail.receipt")
    shown = words(page.text)
    assert "Failed 1" in shown
    assert "mailbox full 1 0" in shown
    assert "/failures?work_type=mail.welcome#f-abc" in page.text
    assert "greetings 0 3 * * * Europe/Berlin" in shown
    assert "Attempts 7 Timeout 30 s" in shown
    assert links(page.text, "/queues/queue") == {"mail"}
    assert "mailbox full" in kinds.text
    assert "mailbox full" not in none.text


async def test_a_type_that_no_node_has_is_said_to_be_unknown(
    node: Master, browser: Browser
) -> None:
    """With the remedy, as an explanation of its jobs gives it."""
    node.enqueue({"work_type": "moon.landing"})
    node.publish("old.kind")
    page = await browser.get(address("/types/type", "moon.landing"))
    unknown = words(page.text)
    known = words((await browser.get(address("/types/type", "old.kind"))).text)
    assert links(page.text, "/queues/queue") == {"default"}
    remedy = "Start a node whose --app defines it."
    assert f"No node has ever registered the work type moon.landing. {remedy}" in unknown
    assert f"No live node has the work type old.kind. {remedy}" in known


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_has_its_page(node: Master, developer: Browser, name: str) -> None:
    """The lists lead to it, it has this queue's jobs, and acts are on this queue."""
    [job_id] = node.enqueue({"queue": name, "work_type": name})
    put(node, name, work_type=name)
    lists = [(await developer.get(path)).text for path in ("/queues", "/types", "/", "/schedules")]
    assert name in links(lists[0], "/queues/queue")
    assert name in links(lists[1], "/types/type")
    assert name in links(lists[2], "/queues/queue")
    assert name in links(lists[3], "/schedules/edit")
    pages = [
        await developer.get(address(path, name))
        for path in ("/queues/queue", "/types/type", "/schedules/edit")
    ]
    await developer.post("/act/control", {"act": "pause", "kind": "queue", "key": name})
    edited = await saved(developer, name)
    waits = node.job(job_id)["state"] == "waiting"
    for page in pages[:2]:
        assert f"Ready {0 if waits else 1} Waiting {1 if waits else 0}" in words(page.text)
    for text in (*lists, *(page.text for page in pages)):
        assert "<script>alert" not in text
        assert not set("\u202e\u200f\x1b") & set(words(text))
    assert edited.status == 303, edited.text
    assert node.column("select key from txqueue.control where is_paused") == [name]
    assert schedule(node, name)["expression"] == "30 4 * * *"


async def test_a_name_that_no_database_stores_is_refused(node: Master, developer: Browser) -> None:
    """A null character."""
    for page in ("/queues/queue", "/types/type", "/schedules/edit"):
        assert (await developer.get(f"{page}?name=%00")).status == 400


async def test_the_page_of_a_large_queue_says_where_it_stopped_to_count(
    node: Master, browser: Browser
) -> None:
    """So that it is read in bounded time, however many jobs there are."""
    node.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, weight, priority, lane,"
        " state, waiting_for, work_type, queue, payload) select number, now(), now(), now(), 1, 4,"
        " 0, 'waiting', 'time', 'test.kind', 'default', '{}' from generate_series(1, %s) as number",
        (LOOKED_AT + 10,),
    )
    page = await browser.get(address("/queues/queue", "default"))
    shown = words(page.text)
    assert f"Ready 0 Waiting {LOOKED_AT:,}+ Failed 0" in shown
    assert f"the first {LOOKED_AT:,} jobs of a state were looked at" in shown


async def test_an_operator_changes_the_times_of_a_schedule(
    node: Master, developer: Browser
) -> None:
    """The act is recorded with the operator's name; the job stays."""
    put(node, "nightly", group="reports")
    form = await developer.get("/schedules/edit?name=nightly")
    answer = await saved(developer, "nightly")
    after = await developer.get(answer.headers["location"])
    again = await saved(developer, "nightly")
    assert "had these times before" in (await developer.get("/schedules")).text
    assert 'name="period" value="1d"' in form.text
    assert (answer.status, again.status) == (303, 303)
    assert "The schedule nightly has new times" in after.text
    row = schedule(node, "nightly")
    kept = [row[name] for name in ("kind", "expression", "zone", "catch_up", "times", "seconds")]
    assert kept == ["cron", "30 4 * * *", "Europe/Berlin", "one", 7, None]
    assert row["until"].startswith("2100-01-01T00:00:00")
    assert row["job"]["group"] == "reports"
    node.cursor.execute("select who, what, subject from txqueue.action order by action_id desc")
    assert node.cursor.fetchall()[0] == ("developer", "schedule", "schedule nightly")


async def test_schedules_are_sorted_by_a_column(node: Master, browser: Browser) -> None:
    """By name without."""
    for name, times in (("b", "0 0 1 1 *"), ("a", "0 0 1 2 *"), ("c", "0 0 1 3 *")):
        put(node, name, Cron(times))
    node.value(
        "update txqueue.schedule set next_due = now() + ascii(name) * interval '1 h' returning 1"
    )
    pages = [await browser.get(f"/schedules?sort={sort}") for sort in ("", "-next_due")]
    names = [re.findall(r'<th scope="row" class="name">(\w)<br>', page.text) for page in pages]
    assert names == [["a", "b", "c"], ["c", "b", "a"]]
    assert 'aria-sort="descending"><a href="/schedules?sort=next_due">Next' in pages[1].text


async def test_an_operator_removes_what_a_class_declared_that_is_gone(
    node: Master, developer: Browser
) -> None:
    """While a node has the class, it would be there again after the next start."""
    terms = json.dumps(schedule_object(Cooldown(60)))
    given = ("gone", terms, '{"work_type": "test.kind", "payload": {}}')
    node.value("select txqueue.put_schedule(%s, %s, %s, null, null, true)", *given)
    before = (await developer.get("/schedules")).text
    node.cursor.execute("update txqueue.node_info set state = 'stopped'")
    after = (await developer.get("/schedules")).text
    await developer.post("/act/schedule", {"act": "remove", "name": "gone"})
    assert ("no node has its class" in before, "Remove" in before) == (False, False)
    assert ("no node has its class" in after, "Remove" in after) == (True, True)
    assert node.column("select name from txqueue.schedule") == []


async def test_the_second_of_two_editors_sees_what_the_first_has_saved(
    node: Master, developer: Browser
) -> None:
    """Nothing is lost silently; a person who has seen the new times may replace them."""
    put(node, "nightly")
    path = "/schedules/edit?name=nightly"
    seen = mark_in((await developer.get(path)).text)
    await saved(developer, "nightly")
    mine = {**TIMES, "expression": "15 5 * * *"}
    late = await developer.post(path, {**mine, "seen": seen, "do": "save"})
    unknown = await developer.post(path, {**mine, "seen": seen, "do": "xxx"})
    assert (late.status, unknown.status) == (409, 200)
    assert "another user has changed this schedule" in words(late.text)
    assert 'value="15 5 * * *"' in late.text
    assert schedule(node, "nightly")["expression"] == "30 4 * * *"
    again = await developer.post(path, {**mine, "seen": mark_in(late.text), "do": "save"})
    assert again.status == 303
    assert schedule(node, "nightly")["expression"] == "15 5 * * *"


async def test_a_preview_shows_the_next_five_moments_and_saves_nothing(
    node: Master, developer: Browser
) -> None:
    """In the schedule's time zone, within what is left of its times."""
    put(node, "nightly")
    shown = await developer.post("/schedules/edit?name=nightly", {**TIMES, "do": "preview"})
    few = await developer.post(
        "/schedules/edit?name=nightly", {**TIMES, "times": "2", "do": "preview"}
    )
    rest = {"kind": "cooldown", "period": "15min", "do": "preview"}
    cooldown = await developer.post("/schedules/edit?name=nightly", rest)
    assert shown.status == few.status == 200
    assert words(shown.text).count("04:30:00 CE") == 5
    assert words(few.text).count("04:30:00 CE") == 2
    assert 'value="30 4 * * *"' in shown.text
    assert "15min after the end of each job" in words(cooldown.text)
    assert schedule(node, "nightly")["kind"] == "every"


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("expression", "0 99 * * *", "is not a cron expression"),
        ("expression", "<script>alert(1)</script>", "is not a cron expression"),
        ("jitter", "2h", "is not a timedelta of up to an hour"),
        ("times", "9" * 400, "is not a whole number"),
        ("catch_up", "maybe", "is not a valid"),
        ("kind", "moon", "this is needed"),
    ],
)
async def test_wrong_times_come_back_in_the_form(
    node: Master, developer: Browser, field: str, typed: str, said: str
) -> None:
    """With the error at the field, and all that was typed."""
    put(node, "nightly")
    fields = {**TIMES, field: typed, "do": "save"}
    answer = await developer.post("/schedules/edit?name=nightly", fields)
    assert answer.status == 422
    assert said in words(answer.text)
    assert "<script>alert" not in answer.text
    if field not in ("kind", "catch_up"):
        place = answer.text.index(f'name="{field}"')
        assert f'value="{html.escape(typed)}"' in answer.text[place : place + 600]
        assert 'aria-invalid="true"' in answer.text[place : place + 900]
    assert 'name="times" value="7"' in answer.text or field == "times"
    assert schedule(node, "nightly")["kind"] == "every"


async def test_a_schedule_of_a_class_is_not_edited(node: Master, developer: Browser) -> None:
    """It is declared in the code, and is to be changed there."""
    terms = json.dumps(schedule_object(Cooldown(60)))
    job = json.dumps({"work_type": "test.kind", "payload": {}})
    node.value("select txqueue.put_schedule('own', %s, %s, null, null, true)", terms, job)
    page = await developer.get("/schedules/edit?name=own")
    answer = await developer.post("/schedules/edit?name=own", {**TIMES, "do": "save"})
    listed = await developer.get("/schedules")
    assert "It is declared in the code; change it there." in words(page.text)
    assert '<form class="editor' not in page.text
    assert answer.status == 409
    assert "is declared in the code" in words(answer.text)
    assert links(listed.text, "/schedules/edit") == set()
    assert schedule(node, "own")["kind"] == "cooldown"
    assert node.value("select count(*) from txqueue.action") == 0


async def test_a_viewer_sees_no_way_to_the_form(
    node: Master, browser: Browser, developer: Browser
) -> None:
    """Nor is there a schedule to edit that does not exist."""
    put(node, "nightly")
    for page in ("/schedules", "/types/type?name=test.kind"):
        assert links((await browser.get(page)).text, "/schedules/edit") == set()
    for name in ("none", ""):
        assert (await developer.get(f"/schedules/edit?name={name}")).status == 400


async def test_a_queue_that_nobody_knows_is_no_outage(node: Master, browser: Browser) -> None:
    """It may be a typing mistake; one with jobs and without a node is an outage."""
    node.enqueue({"queue": "mail"})
    unknown = words((await browser.get(address("/queues/queue", "mial"))).text)
    unserved = words((await browser.get(address("/queues/queue", "mail"))).text)
    assert "Check how it is spelled" in unknown
    assert "Start a node" not in unknown
    assert "Check how it is spelled" not in unserved
    assert "Start a node" in unserved


PUBLISHED = {"work_type": "shop.order", "queue": "default", "priority": 4, "weight": 1}
ORDER = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "note": {"type": "string", "default": "<&>"}},
    "required": ["number"],
    "additionalProperties": False,
}


async def test_a_job_is_enqueued_by_the_form_of_its_type(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """By the schema that nodes have published, after its checks, and only by who may act."""
    keys = {"keys": {"group": [{"path": [["number"]], "kind": "integer"}]}}
    rows = [{**PUBLISHED, "schema": ORDER, "policy": keys}]
    node.value("select txqueue.publish(%s)", json.dumps(rows))
    page, form = address("/types/type", "shop.order"), address("/types/enqueue", "shop.order")
    async with served(dsn, users=users) as browser:
        await log_in(browser, "bob")
        assert "/types/enqueue" not in (await browser.get(page)).text
        assert (await browser.get(form)).status == 403
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        shown = await browser.get(page)
        assert "/types/enqueue" in shown.text
        assert "additionalProperties" in shown.text
        filled = await browser.get(form)
        assert 'value="&lt;&amp;&gt;"' in filled.text
        fields = {"seen": mark_in(filled.text), "f0": "x", "f1": "a"}
        wrong = await browser.post(form, fields)
        stale = await browser.post(form, {**fields, "seen": "other", "f0": "7"})
        assert (wrong.status, stale.status) == (422, 409)
        assert "number is not a number" in words(wrong.text)
        assert node.column("select job_id from txqueue.job") == []
        good = await browser.post(form, {**fields, "f0": "7"})
        assert good.status == 303, words(good.text)
    [job] = node.column("select to_jsonb(job) from txqueue.job")
    assert (job["payload"], job["group"]) == ({"number": 7, "note": "a"}, "7")
    assert node.column("select what || ' by ' || who from txqueue.action") == ["enqueue by ann"]
