"""The conclusions of ``txqueue doctor``: their limits, and facts that no test server can have."""

import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.docs.markdown import ROOT, section
from txqueue.policy.findings import server
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


def test_the_page_lists_every_check_once_and_in_order() -> None:
    """With what it finds."""
    named = re.findall(r"^\| `([\w-]+)` \|", section(PAGE, "The checks"), re.MULTILINE)
    assert named == list(CHECKS)


WAITING: Final = {"names": "s1", "connected": 0}
SESSION: Final = {"pid": 7, "name": "a", "seconds": server.LONG}
IDLE: Final = {**SESSION, "state": "idle in transaction"}
TABLE: Final = {"schema": "txqueue", "table": "job_ready_0", "truncated_seconds": None}
LIMITS: Final[Sequence[tuple[str, str, dict[str, Any]]]] = (
    ("server-version", "fault", {"version": "x", "version_number": 130_015}),
    ("server-version", "", {"version": "x", "version_number": 140_000}),
    ("server-version", "", {"version": "x", "version_number": 180_001}),
    ("server-version", "warning", {"version": "x", "version_number": 190_000}),
    ("connections", "", {"whose": "server", "used": 79, "allowed": 100}),
    ("connections", "warning", {"whose": "server", "used": 80, "allowed": 100}),
    ("connections", "fault", {"whose": "server", "used": 95, "allowed": 100}),
    ("notification-queue", "", {"part": 0.0}),
    ("notification-queue", "warning", {"part": 0.3}),
    ("notification-queue", "fault", {"part": 0.8}),
    # A slow trip makes the offset uncertain, by half of the trip.
    ("clock", "warning", {"offset": -2.1, "trip": 0.0}),
    ("clock", "", {"offset": 2.1, "trip": 1.0}),
    ("clock", "warning", {"offset": 3.0, "trip": 1.0}),
    ("synchronous-standby", "fault", {**WAITING, "level": "on"}),
    ("synchronous-standby", "", {**WAITING, "level": "on", "connected": 1}),
    ("synchronous-standby", "", {**WAITING, "level": "local"}),
    ("synchronous-standby", "", {**WAITING, "level": "off"}),
    # One fault, not two.
    ("writable", "fault", {"is_standby": True, "default_transaction_read_only": "on"}),
    ("standby-feedback", "", {"name": "s1", "pid": 7, "transactions": 99_999}),
    ("standby-feedback", "warning", {"name": "s1", "pid": 7, "transactions": 100_000}),
    ("long-transactions", "warning", {**SESSION, "state": "active", "holds_rows": True}),
    ("long-transactions", "", {**SESSION, "state": "active", "holds_rows": False}),
    ("long-transactions", "warning", {**IDLE, "holds_rows": True}),
    ("long-transactions", "", {**IDLE, "holds_rows": False}),
    ("idle-transactions", "", {**IDLE, "holds_rows": True}),
    ("idle-transactions", "warning", {**IDLE, "holds_rows": False}),
    ("idle-transactions", "", {**IDLE, "holds_rows": False, "seconds": server.LONG - 1}),
    # A slot of an old server has no age, and is found at once.
    ("replication-slots", "warning", {"name": "s", "holds_rows": True, "seconds": None}),
    ("replication-slots", "", {"name": "s", "holds_rows": True, "seconds": 599.0}),
    ("replication-slots", "warning", {"name": "s", "holds_rows": True, "seconds": 600.0}),
    ("dead-rows", "", {**TABLE, "dead": 99_999, "live": 0}),
    ("dead-rows", "warning", {**TABLE, "dead": 100_000, "live": 0}),
    ("dead-rows", "", {**TABLE, "dead": 500_000, "live": 100_001}),
)


@pytest.mark.parametrize(("check", "found", "row"), LIMITS)
def test_what_a_check_finds_at_its_limits(check: str, found: str, row: dict[str, Any]) -> None:
    """Nothing, a warning or a fault."""
    severities = [str(each.severity) for each in CHECKS[check].findings([row])]
    assert severities == ([found] if found else [])


def test_a_fact_that_was_not_read_harms_its_checks_only() -> None:
    """They count as a warning, and as no fault."""
    facts = dict(NOTHING)
    facts["nodes"] = Unread("a lock")
    results = diagnose(facts)
    unchecked = [each.check for each in results if each.unchecked is not None]
    assert unchecked == [name for name, each in CHECKS.items() if "nodes" in each.needs.split()]
    assert "unserved-queues" in unchecked
    assert {each.severity for each in results} == {Severity.OK, Severity.WARNING}
    assert not has_fault(results)
    entries = as_document(results)["checks"]
    assert [each["unchecked"] for each in entries if each["unchecked"]] == ["a lock"] * len(
        unchecked
    )


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
