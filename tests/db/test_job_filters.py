"""The filters of jobs in the database: what each matches, and how much a page reads."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.db.masters import Master, in_each_state
from txqueue.errors import ConfigurationError
from txqueue.policy.pagination import as_text, read_document
from txqueue.store.driver.side_by_side import nested
from txqueue.store.inquiries.inquiry import Inquiry
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads import job_search
from txqueue.store.reads.job_details import about_job
from txqueue.store.reads.job_search import about_bound, about_found, about_matching

pytestmark = pytest.mark.new_sessions

T = TypeVar("T")
HOSTILE = "50%_off\\ 'x' \"y\" {schema} %s é🎉"


@pytest.fixture
def reader(dsn: str, node: Master) -> Iterator[Session]:
    """The connection of a command."""
    assert node.incarnation
    with Session(dsn) as session:
        yield session


def matching(reader: Session, **filters: Any) -> list[int]:
    """Return the numbers of the jobs that match."""
    found = reader.find(about_found("txqueue", filters, 100, is_bounded=False))
    count = reader.find(about_matching("txqueue", filters, 100))
    ids = [job["job_id"] for job in found.jobs]
    assert sum(count.values()) == len(ids)
    return ids


def test_tags(node: Master, reader: Session) -> None:
    """By name, by value, and several together; the list shows them."""
    a, b, c, _ = node.enqueue(
        *(
            {"options": {"tags": tags}}
            for tags in ({"a": "x"}, {"a": HOSTILE}, {"a": "x", "b": ""})
        ),
        {"options": {"attempts": 2}},
    )
    assert matching(reader, tag=["a"]) == [c, b, a]
    assert matching(reader, tag=["a=x"]) == [c, a]
    assert matching(reader, tag=[f"a={HOSTILE}"]) == [b]
    assert matching(reader, tag=["a=x", "b="]) == [c]
    assert matching(reader, tag=["a=%"]) == matching(reader, tag=["A=x"]) == []
    found = reader.find(about_found("txqueue", {"tag": ["b"]}, 1, is_bounded=False))
    assert found.jobs[0]["tags"] == {"a": "x", "b": ""}


def test_waits(node: Master, reader: Session) -> None:
    """By kind, at a step or for another reason, and by the name of a signal; the list shows it."""
    waits: dict[str, dict[str, Any]] = {
        "signal": {"kind": "signal", "signal": HOSTILE},
        "timed": {"kind": "signal", "signal": "go", "seconds": 3600},
        "sleep": {"kind": "sleep", "seconds": 3600},
    }
    ids = {}
    for name, wait in waits.items():
        (ids[name],) = node.enqueue({})
        node.settle(node.claim()[0], "suspended", waits=[{"name": f"step {name}", **wait}])
    (called,) = node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    (ids["call"],) = node.enqueue({})
    call = {"name": "step call", "kind": "call", "child": called}
    node.settle(node.claim()[0], "suspended", waits=[call])
    (retried,) = node.enqueue({})
    node.settle(node.claim()[0], "suspended", waits=[{"name": "go", **waits["signal"]}])
    node.value("select txqueue.signal(%s, %s)", retried, HOSTILE)
    node.settle(node.claim()[0], "retry", delay=3600, error="x")
    assert matching(reader, waiting_for="signal") == [ids["timed"], ids["signal"]]
    assert matching(reader, waiting_for=f"signal={HOSTILE}") == [ids["signal"]]
    assert matching(reader, waiting_for="sleep") == [ids["sleep"]]
    assert matching(reader, waiting_for="call") == [ids["call"]]
    assert matching(reader, waiting_for="time") == [retried, called]
    assert matching(reader, waiting_for="parents") == []
    assert matching(reader, waiting_for="signal", state="failed") == []
    found = reader.find(about_found("txqueue", {"state": "waiting"}, 9, is_bounded=True))
    shown = {job["job_id"]: job["wait"] for job in found.jobs}
    assert [job_id for job_id, wait in shown.items() if wait is None] == [retried, called]
    assert shown[ids["signal"]]["signal"] == HOSTILE
    assert shown[ids["signal"]]["since"] <= found.at <= shown[ids["timed"]]["until"]
    assert shown[ids["call"]]["child"] == called
    assert reader.find(about_job("txqueue", ids["timed"]))["wait"] == shown[ids["timed"]]
    assert read_document(as_text(found.jobs))[-1]["wait"] == shown[ids["signal"]]


def test_payloads(node: Master, reader: Session) -> None:
    """A top-level key, equal as JSON or as text."""
    number, text, nested, other, odd = node.enqueue(
        *({"payload": payload} for payload in ({"id": 42}, {"id": "42"}, {"id": {"a": [1, None]}})),
        {"payload": {"deep": {"id": 42}, "id": None}},
        {"payload": {"id": HOSTILE, HOSTILE.replace("=", ""): True}},
    )
    assert matching(reader, payload=["id=42"]) == [text, number]
    assert matching(reader, payload=["id=42.0"]) == [number]
    assert matching(reader, payload=['id="42"']) == [text]
    assert matching(reader, payload=['id={"a":[1,null]}']) == [nested]
    assert matching(reader, payload=["id=null"]) == [other]
    assert matching(reader, payload=[f"id={HOSTILE}"]) == [odd]
    assert matching(reader, payload=[f"{HOSTILE}=true"]) == [odd]
    assert matching(reader, payload=["id=42", "deep=1"]) == []
    for value in ("1e400", "1e999999", "9" * 5000, r'"\u0000"', "[" * 5000, "NaN"):
        assert matching(reader, payload=[f"id={value}"]) == []


def test_hidden_payloads_match_nothing(node: Master, reader: Session) -> None:
    """Neither of a type that is redacted or encrypted, nor of a job that is."""
    node.publish("secret.kind", policy={"redacted": True})
    node.publish("sealed.kind", policy={"encrypted": True})
    [job_id, *_] = node.enqueue(
        {"payload": {"card": 4111}},
        {"payload": {"card": 4111}, "options": {"redacted": True}},
        {"payload": {"card": 4111}, "options": {"redacted": False}, "work_type": "secret.kind"},
        {"payload": {"encrypted": "4111"}, "work_type": "sealed.kind"},
    )
    assert matching(reader, payload=["card=4111"]) == [job_id]
    assert matching(reader, payload=["encrypted=4111"]) == []


@pytest.mark.parametrize(
    ("text", "does_match"),
    [
        ("TIMED out", True),
        ("50%_off", True),
        ("50%%off", False),
        ("5__", False),
        ("\\ 'X'", True),
        ("é🎉", True),
        ("\n", True),
        ("absent", False),
    ],
)
def test_errors(node: Master, reader: Session, text: str, does_match: bool) -> None:
    """A part of the last error, without regard to case, and literally."""
    [job_id, _] = node.enqueue({}, {})
    error = f"Error: timed out\n{HOSTILE}"
    node.cursor.execute("update txqueue.job set error = %s where job_id = %s", (error, job_id))
    assert matching(reader, error=text) == [job_id] * does_match


def test_no_filter_is_ignored(node: Master, reader: Session) -> None:
    """Neither an empty text nor an unknown name: an act would change more jobs."""
    [job_id, _] = node.enqueue({}, {})
    node.cursor.execute("update txqueue.job set error = 'x' where job_id = %s", (job_id,))
    assert matching(reader, error="") == [job_id]
    for name in ("tag", "payload", "since", "until", "updated_since"):
        with pytest.raises(ConfigurationError):
            matching(reader, **{name: ""})
    with pytest.raises(KeyError):
        matching(reader, tags=["a"])


def test_the_time_of_the_last_change(node: Master, reader: Session) -> None:
    """Whatever it was: an assignment, a failed attempt, or an end."""
    untouched, assigned, failed, ended = node.enqueue({}, {}, {}, {})
    node.cursor.execute("update txqueue.job set enqueued_at = now() - interval '2 h'")
    for job_id, column in (
        (assigned, "assigned_at"),
        (failed, "failed_at"),
        (ended, "finished_at"),
    ):
        node.cursor.execute(
            f"update txqueue.job set {column} = now() - interval '5 min' where job_id = %s",
            (job_id,),
        )
    assert matching(reader, updated_since="1h") == [ended, failed, assigned]
    assert matching(reader, updated_since="3h") == [ended, failed, assigned, untouched]
    assert matching(reader, updated_since="2m") == []


def test_times(node: Master, reader: Session) -> None:
    """Moments, and lengths of time before now; the end is not included."""
    old, new = node.enqueue({}, {})
    node.cursor.execute(
        "update txqueue.job set enqueued_at = '2026-01-01 12:00Z' where job_id = %s", (old,)
    )
    at = datetime.fromisoformat("2026-01-01T12:00+00:00")
    assert matching(reader, since="1h") == [new]
    assert matching(reader, until="1h") == [old]
    assert matching(reader, since=at.isoformat(), until="2026-01-02") == [old]
    assert matching(reader, since=(at + timedelta(seconds=1)).isoformat()) == [new]
    assert matching(reader, until=at.isoformat()) == []
    assert matching(reader, since="36500d", until="9999-12-31") == [new, old]
    assert matching(reader, since="0001-01-01T00:00+14:00") == [new, old]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.sampled_from(
        ["tag", "payload", "error", "since", "until", "updated_since", "queue", "group"]
    ),
    st.text(max_size=30) | st.from_regex(r"[a-z]{1,3}=[\x00-\x7f]{0,20}", fullmatch=True),
)
def test_any_text_matches_or_is_refused(reader: Session, name: str, text: str) -> None:
    """Never an error of the database."""
    filters = {name: [text] if name in ("tag", "payload") else text}
    try:
        assert matching(reader, **filters) == []
    except ConfigurationError as error:
        assert error.remedy  # noqa: PT017 - either is right


READ = (
    "select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::integer"
    " from pg_stat_xact_user_tables where relname ~ '^job_'"
)


def run(node: Master, inquiry: Inquiry[T]) -> T:
    """Run an inquiry in the session's transaction, as a node runs it."""
    with node.connection.cursor() as cursor:
        cursor.execute("set local enable_sort = off")
        try:
            question = next(inquiry)
            while True:
                cursor.execute(question.sql, question.parameters)
                names = [column.name for column in cursor.description or ()]
                question = inquiry.send([nested(names, row) for row in cursor.fetchall()])
        except StopIteration as found:
            answer: T = found.value
            return answer


@pytest.mark.parametrize("state", [None, "done", "ready"])
@pytest.mark.parametrize(
    "filters",
    [{"tag": ["a"]}, {"payload": ["a=1"]}, {"error": "x"}, {"since": "2999-01-01"}],
    ids=str,
)
def test_a_page_reads_a_bounded_number_of_jobs(
    node: Master, monkeypatch: pytest.MonkeyPatch, state: str | None, filters: dict[str, Any]
) -> None:
    """Each page says how many, and where the search goes on; together they find all."""
    monkeypatch.setattr(job_search, "LOOKED_AT", 100)
    oldest, *_ = node.enqueue({"options": {"tags": {"a": "b"}}}, *[{}] * 599)
    for chunk in node.claim():
        node.complete(chunk)
    node.enqueue(*[{}] * 600)
    node.connection.autocommit = False
    pages, found, after = 0, [], None
    while True:
        before = node.value(READ)
        asked = about_found(
            "txqueue", {**filters, "state": state, "after": after}, 50, is_bounded=False
        )
        page = run(node, asked)
        assert node.value(READ) - before <= 250
        pages += 1
        found += [job["job_id"] for job in page.jobs]
        assert (page.searched, page.next is None) in ((100, False), (None, True))
        if (after := page.next) is None:
            break
    node.connection.rollback()
    assert pages >= 6
    assert found == [oldest] * ("tag" in filters and state != "ready")


def test_an_act_looks_at_the_newest_jobs_that_it_may_change(
    node: Master, monkeypatch: pytest.MonkeyPatch, reader: Session
) -> None:
    """With a filter that no index serves; with others at all."""
    monkeypatch.setattr(job_search, "LOOKED_AT", 10)
    ids = node.enqueue(*({"options": {"tags": {"a": "b"}}} for _ in range(30)))
    assert reader.find(about_bound("txqueue", {"act": "cancel", "tag": ["a"]})) == ids[20]
    assert reader.find(about_bound("txqueue", {"act": "cancel", "queue": "default"})) is None
    assert reader.find(about_bound("txqueue", {"act": "retry", "tag": ["a"]})) is None


def test_an_act_on_all_neither_revives_nor_gives_up(node: Master, reader: Session) -> None:
    """It changes jobs that were given up, or failed, only if their state is asked for.

    Of those that wait, a retry takes only those that wait for their retry.
    """
    jobs = in_each_state(node)
    live = {jobs[name] for name in ("later", "again", "ready", "assigned")}

    def changed(act: str, **filters: str) -> set[int]:
        return set(matching(reader, act=act, **filters))

    assert changed("cancel") == live
    assert changed("cancel", state="failed") == {jobs["failed"]}
    assert changed("retry") == {jobs["failed"]}
    assert changed("retry", state="cancelled") == {jobs["cancelled"]}
    assert changed("retry", state="waiting") == {jobs["again"]}
    assert changed("retry", waiting_for="time") == {jobs["again"]}
    assert changed("restart") == {jobs["assigned"]}
    assert changed("set_priority") == live - {jobs["assigned"]}


@pytest.mark.parametrize("filters", [{"act": "retry", "state": "done"}, {"act": "drain_node"}])
def test_an_act_that_changes_no_such_jobs_is_refused(
    reader: Session, filters: dict[str, str]
) -> None:
    """With the states that it changes."""
    with pytest.raises(ConfigurationError, match="changes no"):
        matching(reader, **{"state": "ready", **filters})


def test_tags_are_shown_with_a_job(node: Master, reader: Session) -> None:
    """None without any; one that looks like a moment stays text."""
    tags = {"at": "2026-01-01T00:00:00Z"}
    [first, second] = node.enqueue({"options": {"tags": tags}}, {})
    assert reader.find(about_job("txqueue", second))["tags"] is None
    found = reader.find(about_job("txqueue", first))
    assert read_document(as_text(found))["tags"] == tags
    assert json.loads(as_text(found))["tags"] == tags
