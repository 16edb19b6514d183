"""Checks of queues, work types, pauses, schedules and the keys of payloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.model.humanize import age, argument, counted, queues_option, resume_command
from txqueue.policy.blockers.blocked_jobs import blocked_warnings
from txqueue.policy.diagnosis.finding import Check, Finding, Row, Severity, fault
from txqueue.policy.diagnosis.nodes import NO_NODE
from txqueue.policy.diagnosis.tables import listed
from txqueue.policy.facts.obstacles import because_silent, remedy_if_silent

# Seconds after which a schedule counts as overdue.
OVERDUE = 60.0
# The most rows that the queries of `txqueue.store.reads.examination.statements` return.
_MOST_COUNTED: Final = 1000
_MOST_PAUSES: Final = 100
# The only warning about what ends by itself is that of a heavy job.
_BY_GRAVITY: Final = {
    "fault": (Severity.FAULT, "they wait until that is repaired"),
    "act": (Severity.WARNING, "they wait until an operator ends that"),
    "course": (Severity.WARNING, "nodes with room for jobs behind it do not start these"),
}


def _queues(rows: Sequence[Row]) -> Iterator[Finding]:
    last_served = {row["queue"]: row["last_served"] for row in rows}
    for queue, jobs in _sums(rows, "queue", "is_served").items():
        yield _unserved(
            f"no live node serves the queue {queue}, which has {counted(jobs, 'job')} to run",
            last_served[queue],
            f"start a node with {queues_option(queue)}",
        )


def _unserved(what: str, last: Row | None, start: str) -> Finding:
    because = because_silent(last, last["silent"] if last else 0.0)
    return fault(f"{what}{because}", "these jobs do not run", remedy_if_silent(last, start))


def _work_types(rows: Sequence[Row]) -> Iterator[Finding]:
    served = [row for row in rows if row["is_served"]]
    last_defined = {row["work_type"]: row["last_defined"] for row in rows}
    for work_type, jobs in _sums(served, "work_type", "is_defined").items():
        yield _unserved(
            f"no live node of its queue has the work type {work_type}, which has"
            f" {counted(jobs, 'job')} to run",
            last_defined[work_type],
            "start a node whose --app defines it",
        )
    unserved = [row for row in rows if not row["is_served"]]
    for work_type, jobs in _sums(unserved, "work_type", "is_published").items():
        yield fault(
            f"no node has ever registered the work type {work_type}, which has"
            f" {counted(jobs, 'job')} to run",
            "these jobs do not run, even once a node serves their queue",
            "start a node whose --app defines it",
        )


def _sums(rows: Sequence[Row], column: str, unless: str) -> dict[str, int]:
    """Return the number of jobs for each value of a column, the largest first."""
    sums: dict[str, int] = {}
    for row in rows:
        if not row[unless]:
            sums[row[column]] = sums.get(row[column], 0) + row["jobs"]
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _blocked(rows: Sequence[Row]) -> Iterator[Finding]:
    for gravity, (severity, why) in _BY_GRAVITY.items():
        of_gravity = [row for row in rows if row["gravity"] == gravity]
        for warned in blocked_warnings(of_gravity):
            yield Finding(severity, warned["what"], why, warned["remedy"])


def _pauses(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        kind, key = row["kind"], row["key"]
        since = "" if row["seconds"] is None else f" for {age(row['seconds'])}"
        actor = f" by {row['actor']}" if row["actor"] else ""
        yield Finding(
            Severity.WARNING,
            f"the {kind} {key} is paused{since}{actor}",
            "its jobs wait until it is resumed",
            f"resume it once the reason for the pause is gone: {resume_command(kind, key)}",
        )


def _schedules(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["seconds"] >= OVERDUE:
            yield Finding(
                Severity.WARNING,
                f"the schedule {row['name']} is overdue by {age(row['seconds'])}",
                "its job was not enqueued",
                "check that a node runs, and read its log"
                if row["has_class"]
                else "no node has its class: start one, or if the class is gone, remove the"
                f" schedule by: txqueue schedule remove {argument(row['name'])}",
            )


def _payload_keys(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["error"] is not None:
            yield Finding(
                Severity.FAULT,
                row["error"],
                "clients and nodes with this environment do not start",
                row["remedy"],
            )
        elif row["work_types"] and not row["has_key"]:
            yield Finding(
                Severity.WARNING,
                f"payloads of {listed(row['work_types'])} are encrypted, and this environment has"
                f" no {row['variable']}",
                "clients and nodes with this environment can neither enqueue nor run them",
                f"run txqueue doctor with the environment of a node, or set {row['variable']}",
            )


def _archive(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["error"] is not None:
            yield Finding(
                Severity.WARNING,
                f"the archive {row['location']} cannot be used from this host: {row['error']}",
                "history that is not archived is not dropped either, and grows",
                "make it reachable and writable for the accounts of nodes",
            )


CHECKS: Final = (
    Check("unserved-queues", "runnable_jobs", _queues, _MOST_COUNTED, NO_NODE),
    Check("unknown-work-types", "runnable_jobs", _work_types, _MOST_COUNTED, NO_NODE),
    Check("blocked-jobs", "blocked_jobs", _blocked, unless=NO_NODE),
    Check("pauses", "pauses", _pauses, _MOST_PAUSES),
    Check("overdue-schedules", "due_schedules", _schedules, unless=NO_NODE),
    Check("payload-keys", "payload_keys", _payload_keys),
    Check("archive", "archive", _archive),
)
"""The checks of the work."""
