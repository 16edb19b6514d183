"""What the command shows of a database, and that it says the same as JSON; the options of ``txqueue
jobs`` that search, and those that give a new job tags.
"""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.db.conftest import Cli
from tests.db.masters import Master
from txqueue.errors import DatabaseUnavailable
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads import job_search
from txqueue.store.reads.queue_state import about_clock

Txqueue = Callable[..., Any]

NODE = """
    insert into txqueue.node_info (name, hostname, pid, incarnation, lease, capacity, queues,
        work_types, heartbeat_at)
    values (%s, 'host', 7, nextval('txqueue.incarnation'), '1 h', 100, %s, %s,
        now() - make_interval(secs => %s))
"""
HOSTILE = "Zoë 🎉 <b> [red]x[/red] 100% 'q' \x1b[31m"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting from outside the test."""
    for name in ("TXQUEUE_DSN", "TXQUEUE_SCHEMA", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def session(dsn: str) -> Any:
    """A connection to the same database."""
    with Session(dsn) as session:
        yield session


def become(session: Session, job_id: int, state: str, **columns: object) -> None:
    """Bring a job into a state, whose partition it thereby moves to."""
    given = {"state": state, "waiting_for": None, **columns}
    changes = ", ".join(f'"{name}" = %s' for name in given)
    session.rows(f"update txqueue.job set {changes} where job_id = %s", (*given.values(), job_id))


def test_status(txqueue: Txqueue, shown: Callable[..., str], session: Session) -> None:
    """Depth by state, rates, nodes and warnings, from one call."""
    session.rows(NODE, ("mercury", ["default"], ["mail"], 0))
    session.rows(NODE, ("venus", ["default"], ["mail"], 7200))
    ids = txqueue("enqueue", "mail", "{}", "--count", "5")["job_ids"]
    for state, job_id in zip(("ready", "assigned", "done", "failed"), ids[:4], strict=True):
        now = session.value("select now()")
        become(session, job_id, state, assigned_at=now, finished_at=now)
    document = txqueue("status")
    (queue,) = document["queues"]
    assert [queue[state] for state in ("ready", "assigned", "failed", "waiting")] == [1, 1, 1, 1]
    assert queue["waiting_for"] == {"type": 1}
    assert queue["done_last_minute"] == 1
    assert queue["oldest_ready_seconds"] > 0
    assert [node["state"] for node in document["nodes"]] == ["alive", "dead"]
    assert {w["kind"] for w in document["warnings"]} == {"dead_node", "failed_jobs"}
    text = shown("status")
    for word in ("default", "mercury", "venus", "no heartbeat for 2 h"):
        assert word in text


def test_holds(txqueue: Txqueue, shown: Callable[..., str], session: Session) -> None:
    """Until when, and as the reason of the jobs that wait for it."""
    session.rows(NODE, ("mercury", ["default"], ["mail"], 0))
    (job_id,) = txqueue("enqueue", "mail", "{}")["job_ids"]
    become(session, job_id, "ready")
    session.rows("select setval('txqueue.has_limits', 1)")
    for queue, left in (("default", "1 hour"), ("other", "-1 hour")):
        session.rows(
            "insert into txqueue.control (kind, key, held_until, held_by)"
            " values ('queue', %s, now() + %s::interval, 7)",
            (queue, left),
        )
    held, over = txqueue("limits")["limits"]
    assert (held["key"], held["held_by"], over["held_until"]) == ("default", 7, None)
    assert "throttled until" in shown("limits")
    assert [each["reason"] for each in txqueue("status")["blocked"]] == ["throttled"]
    assert "the queue default is throttled until" in shown("explain", str(job_id))


def test_nodes(txqueue: Txqueue, shown: Callable[..., str], session: Session) -> None:
    """With their ages by the database's clock."""
    assert "No node has ever registered" in shown("nodes")
    session.rows(NODE, ("mercury", ["default", "mail"], ["mail"], 5))
    (node,) = txqueue("nodes")["nodes"]
    assert node["name"] == "mercury"
    assert (node["queues"], node["lease"], node["jobs"]) == (["default", "mail"], 3600.0, 0)
    assert node["heartbeat_seconds"] >= 5
    assert "default, mail" in shown("nodes")
    session.rows("update txqueue.node_info set report = %s", ('{"applications": ["1a", "2b"]}',))
    assert "Application: 1a (mercury); 2b (mercury)" in shown("nodes")
    (warning,) = (
        each
        for each in txqueue("status")["warnings"]
        if each["kind"] == "mixed_applications" and each["subject"] == "mail"
    )
    assert "1a (mercury); 2b (mercury)" in warning["what"]


def test_jobs_are_paged(txqueue: Txqueue, shown: Callable[..., str]) -> None:
    """The newest first, each once, until there is no next."""
    ids = txqueue("enqueue", "mail", "{}", "--count", "5")["job_ids"]
    first = txqueue("jobs", "--limit", "2")
    second = txqueue("jobs", "--limit", "2", "--after", str(first["next"]))
    third = txqueue("jobs", "--limit", "2", "--after", str(second["next"]))
    assert third["next"] is None
    found = [job["job_id"] for page in (first, second, third) for job in page["jobs"]]
    assert found == ids[::-1]
    assert str(ids[0]) in shown("jobs")


def test_what_runs_for_long_is_listed_the_longest_first(
    txqueue: Txqueue, shown: Callable[..., str], session: Session
) -> None:
    """And for how long it has run; what waits in a worker does not run."""
    ids = txqueue("enqueue", "mail", "{}", "--count", "4")["job_ids"]
    now = session.value("select now()")
    for job_id, minutes in zip(ids, (5, 90, 30), strict=False):
        began = now - timedelta(minutes=minutes)
        become(session, job_id, "assigned", assigned_at=began, started_at=began)
    become(session, ids[3], "assigned", assigned_at=now - timedelta(hours=9))
    found = txqueue("jobs", "--running-for", "10min")
    assert ([job["job_id"] for job in found["jobs"]], found["next"]) == ([ids[1], ids[2]], None)
    assert [job["job_id"] for job in txqueue("jobs", "--running-for", "0s")["jobs"]] == [
        ids[1],
        ids[2],
        ids[0],
    ]
    one = txqueue("jobs", "--running-for", "0s", "--limit", "1")
    assert ([job["job_id"] for job in one["jobs"]], one["next"]) == ([ids[1]], None)
    assert "runs for 1 h 30 min" in " ".join(shown("jobs").split())


def test_a_job_that_was_given_up_took_as_long_as_its_last_run(
    txqueue: Txqueue, shown: Callable[..., str], session: Session
) -> None:
    """Not until an operator gave it up."""
    (job_id,) = txqueue("enqueue", "mail", "{}")["job_ids"]
    now = session.value("select now()")
    began, given_up = now - timedelta(seconds=3), now + timedelta(hours=5)
    become(session, job_id, "cancelled", assigned_at=began, attempt=1, finished_at=given_up)
    assert "took 5 h" in " ".join(shown("job", str(job_id)).split())
    session.rows(
        "insert into txqueue.failed_attempt (job_id, attempt, began, at, error)"
        " values (%s, 1, %s, %s, 'ValueError: no')",
        (job_id, began, now),
    )
    assert "took 3.0 s" in " ".join(shown("job", str(job_id)).split())


def test_a_job_is_shown_whole(
    txqueue: Txqueue, shown: Callable[..., str], session: Session
) -> None:
    """Its payload unchanged in JSON, and harmless on a terminal; its traceback line by line."""
    payload = {"text": HOSTILE, "n": 1}
    words = ("mail", json.dumps(payload), "--priority", "7", "--weight", "3", "--group", HOSTILE)
    job_id = str(txqueue("enqueue", *words)["job_ids"][0])
    error = "ValueError: no\n\nTraceback:\n  line 1\x1b[31m"
    now = session.value("select now()")
    become(session, int(job_id), "failed", error=error, finished_at=now, assigned_at=now)
    job = txqueue("job", job_id)
    assert (job["payload"], job["group"], job["error"]) == (payload, HOSTILE, error)
    assert (job["priority"], job["weight"], job["state"]) == (7, 3, "failed")
    text = shown("job", job_id)
    assert "\x1b" not in text
    for word in ("[red]x[/red]", "Zoë 🎉", "  line 1\\x1b[31m", "took"):
        assert word in text


def test_a_job_is_shown_with_the_log_of_its_last_attempt_that_has_one(
    txqueue: Txqueue, shown: Callable[..., str], session: Session
) -> None:
    """And with the class of each attempt's error; JSON has the logs of all attempts."""
    (job_id,) = txqueue("enqueue", "mail", "{}")["job_ids"]
    session.rows(
        "insert into txqueue.failed_attempt (job_id, attempt, error_class, log) values"
        " (%s, 1, 'shop.Declined', 'one'), (%s, 2, 'shop.Declined', %s), (%s, 3, null, null)",
        (job_id, job_id, f"two\n{HOSTILE}", job_id),
    )
    text = shown("job", str(job_id))
    assert "Log of run 2" in text
    assert "two" in text.splitlines()
    assert "one" not in text
    assert "\x1b" not in text
    assert text.count("shop.Declined") == 2
    logs = [attempt["log"] for attempt in txqueue("job", str(job_id))["attempts"]]
    assert logs == ["one", f"two\n{HOSTILE}", None]


def test_a_reader_cannot_write(session: Session) -> None:
    """Whatever is asked, looking changes nothing."""

    def writing() -> Inquiry[None]:
        yield Question("insert into txqueue.setting default values")

    session.find(about_clock())
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        session.find(writing())


def test_the_rate_reads_only_the_end_of_history(session: Session) -> None:
    """The plan has a range of row ids, in today's partition only."""
    plan = session.rows("explain (analyze, costs off) select * from txqueue.recent_done")
    text = "\n".join(line for (line,) in plan)
    assert "Tid Range Scan" in text
    assert "Seq Scan on job_done" not in text


def test_jobs_that_wait_at_a_step(
    node: Master, txqueue: Txqueue, shown: Callable[..., str], cli: Cli
) -> None:
    """The list and the job say for what, and since when."""
    (job_id,) = node.enqueue({})
    wait = {"name": "approval", "kind": "signal", "signal": "approved", "seconds": 3600}
    node.settle(node.claim()[0], "suspended", waits=[wait])
    assert listed(txqueue, "--waiting-for", "signal=approved") == [job_id]
    assert listed(txqueue, "--waiting-for", "signal=other") == []
    listing = " ".join(shown("jobs").split())
    assert "waiting: signal approved" in listing
    assert "waits for" in listing
    job = " ".join(shown("job", str(job_id)).split())
    assert "waits at step approval, since" in job
    assert "until" in job
    assert "not before" not in job
    said = cli("jobs", "--waiting-for", "godot", status=2).err
    assert "write signal=NAME, or one of signal, sleep, call" in " ".join(said.split())


def listed(txqueue: Txqueue, *words: str) -> list[int]:
    """Return the numbers of the jobs that the command lists."""
    return [job["job_id"] for job in txqueue("jobs", *words)["jobs"]]


def test_jobs_are_enqueued_and_found_by_tag(
    node: Master, txqueue: Txqueue, shown: Callable[..., str]
) -> None:
    """All the filters together, each as often as it is given."""
    tags = ("--tag", "campaign=spring", "--tag", "team=a=b")
    [job_id] = txqueue("enqueue", "test.kind", '{"order_id": 42}', *tags)["job_ids"]
    assert node.job(job_id)["options"] == {"tags": {"campaign": "spring", "team": "a=b"}}
    node.enqueue({})
    assert listed(txqueue, "--tag", "campaign") == [job_id]
    assert listed(txqueue, "--tag", "campaign=spring", "--tag", "team=a=b") == [job_id]
    assert listed(txqueue, "--tag", "campaign=autumn") == []
    assert listed(txqueue, "--payload", "order_id=42", "--since", "1h") == [job_id]
    assert listed(txqueue, "--until", "2026-01-01") == []
    assert listed(txqueue, "--error", "x") == []
    assert txqueue("jobs", "--tag", "team")["jobs"][0]["tags"] == {
        "campaign": "spring",
        "team": "a=b",
    }
    assert "campaign=spring, team=a=b" in shown("job", str(job_id))


def test_a_search_ends_after_a_number_of_jobs_and_says_so(
    node: Master, txqueue: Txqueue, shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the number from which it goes on, in JSON as well."""
    monkeypatch.setattr(job_search, "LOOKED_AT", 10)
    ids = node.enqueue({"options": {"tags": {"a": "b"}}}, *[{}] * 15)
    page = txqueue("jobs", "--tag", "a")
    assert page == {"jobs": [], "next": ids[6], "searched": 10}
    text = shown("jobs", "--tag", "a")
    assert f"Searched the newest 10 jobs only.\nMore: --after {ids[6]}" in text
    assert "No such job so far." in text
    page = txqueue("jobs", "--tag", "a", "--after", str(ids[6]))
    assert [job["job_id"] for job in page["jobs"]] == [ids[0]]
    assert (page["next"], page["searched"]) == (None, None)
    assert len(txqueue("jobs", "--queue", "default")["jobs"]) == 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("enqueue", "test.kind", "{}", "--tag", "a"), "'a' has no value; write NAME=VALUE"),
        (("enqueue", "test.kind", "{}", "--tag", "a b=c"), "tags are not an object"),
        (("enqueue", "test.kind", "{}", "--tag", "a=1", "--tag", "a=2"), "a tag is given twice"),
        (("enqueue", "test.kind", "{}", "--traceparent", "nonsense"), "is not a header of W3C"),
    ],
    ids=str,
)
def test_a_wrong_filter_or_tag_is_refused(
    node: Master, shown: Callable[..., str], words: tuple[str, ...], said: str
) -> None:
    """With what is wrong, and how to write it."""
    assert said in " ".join(shown(*words).split())
    assert node.states() == {}


@pytest.mark.parametrize("command", ["jobs", "history", "schedules"])
def test_a_filter_that_names_nothing(node: Master, shown: Callable[..., str], command: str) -> None:
    """An empty list says so, with what exists, the nearest first."""
    node.enqueue({"queue": "mail", "group": "g", "tenant": "t"}, {"queue": "reports"})
    name = "test.kidn"
    said = shown(command, "--type", name)
    assert f"No live job, node or limit has the work type {name}; there" in said
    assert "test.kind" in said


def test_each_filter_by_a_name(node: Master, shown: Callable[..., str]) -> None:
    """A name that exists is not noted, nor anything with --json."""
    node.enqueue({"queue": "mail", "group": "g1", "tenant": "t1"}, {"queue": "reports"})
    assert "has the queue maill; there are mail, " in shown("jobs", "--queue", "maill")
    assert "has the group g2; there is g1." in shown("jobs", "--group", "g2")
    assert "has the tenant t2; there is t1." in shown("jobs", "--tenant", "t2")
    assert "No node has the name nod; there is node." in shown("jobs", "--on", "nod")
    assert shown("jobs", "--queue", "reports", "--group", "g1").strip() == "No such job."
    assert "there" not in shown("jobs", "--queue", "maill", "--json")
