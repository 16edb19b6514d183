"""The conclusions of ``txqueue doctor``: their limits, and facts that no test server can have."""

import re
from typing import Any, Final

import pytest

from tests.docs.markdown import ROOT, section
from txqueue.policy.findings import server
from txqueue.policy.findings import server as horizon
from txqueue.policy.findings.catalogue import TOPICS, as_document, diagnose, has_fault
from txqueue.policy.findings.finding import Severity, Unread
from txqueue.policy.findings.status import LiveJobs

PAGE: Final = ROOT / "docs" / "howto" / "check-an-installation.md"
CHECKS: Final = {check.name: check for checks in TOPICS.values() for check in checks}


NOTHING: Final[dict[str, Any]] = {
    **{name: [] for check in CHECKS.values() for name in check.needs.split()},
    "unended": [{"jobs": 0}],
    "schedules": [{"active": 0}],
    "live": LiveJobs([], []),
}


def judged(check: str, row: dict[str, Any]) -> list[str]:
    """Return the severities of what a check finds in one row."""
    return [str(each.severity) for each in CHECKS[check].findings([row])]


def test_the_page_lists_every_check_once_and_in_order() -> None:
    """With what it finds."""
    named = re.findall(r"^\| `([\w-]+)` \|", section(PAGE, "The checks"), re.MULTILINE)
    assert named == list(CHECKS)


@pytest.mark.parametrize(
    ("number", "found"),
    [(130_015, ["fault"]), (140_000, []), (160_004, []), (180_001, []), (190_000, ["warning"])],
)
def test_versions_of_the_server(number: int, found: list[str]) -> None:
    """From 14 on."""
    assert judged("server-version", {"version_number": number, "version": "x"}) == found


@pytest.mark.parametrize(
    ("used", "found"), [(79, []), (80, ["warning"]), (94, ["warning"]), (95, ["fault"])]
)
def test_connections_in_use(used: int, found: list[str]) -> None:
    """Of the server, the database or the role."""
    assert judged("connections", {"whose": "server", "used": used, "allowed": 100}) == found


@pytest.mark.parametrize(("part", "found"), [(0.0, []), (0.3, ["warning"]), (0.8, ["fault"])])
def test_the_queue_of_notifications(part: float, found: list[str]) -> None:
    """A quarter full, then three quarters."""
    assert judged("notification-queue", {"part": part}) == found


@pytest.mark.parametrize(
    ("offset", "trip", "found"), [(-2.1, 0.0, 1), (2.1, 1.0, 0), (3.0, 1.0, 1)]
)
def test_a_slow_trip_makes_the_clocks_offset_uncertain(
    offset: float, trip: float, found: int
) -> None:
    """By half of the trip."""
    assert len(judged("clock", {"offset": offset, "trip": trip})) == found


@pytest.mark.parametrize(
    ("level", "connected", "found"), [("on", 0, 1), ("on", 1, 0), ("local", 0, 0), ("off", 0, 0)]
)
def test_commits_that_wait_for_a_standby(level: str, connected: int, found: int) -> None:
    """Unless synchronous_commit asks for none."""
    row = {"names": "s1", "level": level, "connected": connected}
    assert len(judged("synchronous-standby", row)) == found


def test_a_standby_accepts_no_writes() -> None:
    """That is one fault, not two."""
    row = {"is_standby": True, "default_transaction_read_only": "on"}
    assert judged("writable", row) == ["fault"]


@pytest.mark.parametrize(("back", "found"), [(99_999, 0), (100_000, 1)])
def test_a_standby_that_needs_old_rows(back: int, found: int) -> None:
    """It reports no time, only a transaction."""
    assert len(judged("standby-feedback", {"name": "s1", "pid": 7, "transactions": back})) == found


@pytest.mark.parametrize(
    ("state", "holds_rows", "seconds", "found"),
    [
        ("active", True, horizon.LONG, ["long-transactions"]),
        ("idle in transaction", True, horizon.LONG, ["long-transactions"]),
        ("idle in transaction", False, horizon.LONG, ["idle-transactions"]),
        ("idle in transaction (aborted)", False, horizon.LONG, ["idle-transactions"]),
        ("idle in transaction", False, horizon.LONG - 1, []),
        ("active", False, horizon.LONG, []),
    ],
)
def test_each_transaction_is_found_by_one_check(
    state: str, holds_rows: bool, seconds: float, found: list[str]
) -> None:
    """After ten minutes."""
    row = {"pid": 7, "name": "a", "state": state, "seconds": seconds, "holds_rows": holds_rows}
    names = ("long-transactions", "idle-transactions")
    assert [name for name in names if judged(name, row)] == found


@pytest.mark.parametrize(("seconds", "found"), [(None, 1), (599.0, 0), (600.0, 1)])
def test_a_slot_of_an_old_server_has_no_age(seconds: float | None, found: int) -> None:
    """It is found at once."""
    row = {"name": "s", "holds_rows": True, "seconds": seconds}
    assert len(judged("replication-slots", row)) == found


@pytest.mark.parametrize(
    ("dead", "live", "found"), [(99_999, 0, 0), (100_000, 0, 1), (500_000, 100_001, 0)]
)
def test_dead_rows_matter_if_they_outnumber_live_ones(dead: int, live: int, found: int) -> None:
    """And if there are many."""
    row = {"schema": "txqueue", "table": "job_ready_0", "dead": dead, "live": live}
    assert len(judged("dead-rows", {**row, "truncated_seconds": None})) == found


def test_a_fact_that_was_not_read_harms_its_checks_only() -> None:
    """They count as a warning, and as no fault."""
    facts = dict(NOTHING)
    facts["nodes"] = Unread("a lock")
    results = diagnose(facts)
    unchecked = [each.check for each in results if each.unchecked is not None]
    of_jobs = ["unserved-queues", "unknown-work-types"]
    assert unchecked == [*(check.name for check in TOPICS["nodes"]), *of_jobs]
    assert {each.severity for each in results} == {Severity.OK, Severity.WARNING}
    assert not has_fault(results)
    entries = as_document(results)["checks"]
    assert [each["unchecked"] for each in entries if each["unchecked"]] == ["a lock"] * 10


def test_the_gravest_finding_is_the_severity_of_the_check() -> None:
    """Of two findings."""
    row = {"fsync": "off", "full_page_writes": "on", "synchronous_commit": "off"}
    facts = dict(NOTHING)
    check = CHECKS["durability"]
    assert len(check.findings([row])) == 2
    others = {"autovacuum": "on", "track_counts": "on", "jit": "off", "idle_limit": 0}
    others |= {"default_transaction_isolation": "read committed", "version_number": 180_000}
    others |= {"is_standby": False, "default_transaction_read_only": "off", "encoding": "UTF8"}
    results = diagnose({**facts, "settings": [{**row, **others}]})
    assert [each.check for each in results if each.severity is Severity.FAULT] == ["durability"]
    assert has_fault(results)
    assert server.SERVER.checks[0].name == "connection"


@pytest.mark.parametrize(("queues", "more"), [(999, "979"), (1000, "at least 980")])
def test_findings_of_a_check_are_few(queues: int, more: str) -> None:
    """The queues with the most jobs are named; one finding says how many more there are."""
    facts = dict(NOTHING)
    rows = [
        {"queue": f"q{n}", "work_type": "t", "state": "ready", "jobs": n} for n in range(queues)
    ]
    facts["live"] = LiveJobs(rows, [])
    [result] = [each for each in diagnose(facts) if each.check == "unserved-queues"]
    assert len(result.findings) == 21
    assert f"the queue q{queues - 1}, which has {queues - 1} jobs" in result.findings[0].what
    assert result.findings[-1].what == f"and {more} more like those before"
    assert result.severity is Severity.FAULT
