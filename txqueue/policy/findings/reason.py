"""One reason why a job does not run: how it is written, and those of jobs that wait or
have ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final

from attrs import evolve, frozen

from txqueue.model.humanize import age, argument, counted, limit_command


def shown_moment(text: str) -> str:
    """Return a moment for people; one that Python cannot have stays as it is written."""
    parsed = _parsed(text) if not text.endswith("infinity") else None
    is_far = parsed is None or parsed.year in (datetime.min.year, datetime.max.year)
    return text if is_far else f"{parsed:%Y-%m-%d %H:%M:%S %z}"


def seconds_between(later: str, earlier: str) -> float:
    """Return the seconds from one moment to a later one, which may be infinite."""
    if later.endswith("infinity"):
        return float("-inf") if later.startswith("-") else float("inf")
    return (_parsed(later) - _parsed(earlier)).total_seconds()


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # A timestamp before year 1 or after 9999: use the nearest that Python has.
        return (datetime.min if text.endswith("BC") else datetime.max).replace(tzinfo=UTC)


Facts = Mapping[str, Any]


class Gravity(IntEnum):
    """What it takes until a job runs; the gravest last."""

    COURSE = 0
    """Only time, or the ends of other jobs."""
    ACT = 1
    """An act of an operator: something was stopped on purpose, or a session holds a lock."""
    FAULT = 2
    """A repair: no node can run the job."""


DAMAGE_REMEDY: Final = (
    "check the server's disks; restore the row from a backup, or enqueue the job again"
)
HEAVY_HEAD: Final = "heavy_head"
"""The kind of the warning about a job that runs without an act, but keeps others waiting."""


@frozen
class Blocker:
    """One reason why a job does not run.

    Attributes:
        reason: One word for programs; see `Explanation`.
        detail: The reason in one sentence for people.
        remedy: What would make the job run.
        gravity: What it takes.
        kind: The kind of the warning about it, if a warning counts its jobs by name already.
    """

    reason: str
    detail: str
    remedy: str
    gravity: Gravity = Gravity.COURSE
    kind: str = "blocked_jobs"


def control(facts: Facts, kind: str) -> Mapping[str, Any]:
    """Return the limits and the pause of the job's queue, group or tenant."""
    return next((row for row in facts["controls"] if row["kind"] == kind), {})


def is_due(facts: Facts) -> bool:
    """Tell whether the moment has come before which the job may not run."""
    return seconds_between(facts["job"]["not_before"], facts["now"]) <= 0


def raised(kind: str, key: str, option: str) -> str:
    """Return how to raise a limit."""
    return f"to allow more: {limit_command(kind, key, f'{option} N')}"


def ago(facts: Facts, column: str) -> str:
    """Return how long ago a moment of the job was."""
    return age(seconds_between(facts["now"], facts["job"][column]))


def until(facts: Facts, moment: str) -> str:
    """Return when a moment will be."""
    left = seconds_between(moment, facts["now"])
    if left == float("inf"):
        return "never"
    return f"in {age(left)}" if left >= 1 else "about now"


def at_wait(facts: Facts) -> Blocker:
    """Return what the job waits for, and since when."""
    job, waits = facts["job"], facts.get("waits") or ()
    if not waits:
        return Blocker("signal", "the signal has just come", "nothing: it goes on in a moment")
    first = waits[0]
    others = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    detail = f"it waits at step {first['name']!r} for {awaited(facts, first)}{others}"
    return Blocker(first["kind"], detail, _remedy(job["job_id"], first))


def awaited(facts: Facts, wait: Mapping[str, Any]) -> str:
    """Return what a job waits for at one of its steps, and since when."""
    since = f"for {age(seconds_between(facts['now'], wait['since']))}"
    moment = wait["until"] and f"{shown_moment(wait['until'])}, {until(facts, wait['until'])}"
    match wait["kind"]:
        case "signal":
            end = f", at most until {moment}" if moment else ""
            return f"the signal {wait['signal']!r}, {since} so far{end}"
        case "call":
            return f"the end of job {wait['child']}, {since} so far"
    return f"a moment, {moment}"


def _remedy(job_id: int, wait: Mapping[str, Any]) -> str:
    match wait["kind"]:
        case "signal":
            name, annotation = argument(wait["signal"]), wait.get("annotation")
            what = f"a value in JSON{f' ({annotation})' if annotation else ''}"
            if annotation == "bool":
                what = "true or false"
            return f"send it, with {what}: txqueue signal {job_id} {name} VALUE"
        case "call":
            return f"nothing: it goes on then; see: txqueue explain {wait['child']}"
    return "nothing: it goes on then"


def in_cycle(facts: Facts) -> Iterator[Blocker]:
    """Yield that a job waits for its own end, through others that wait for it."""
    if cycle := facts.get("cycle"):
        links = ", which waits for ".join(f"job {job_id}" for job_id in cycle)
        yield Blocker(
            "cycle",
            f"it waits for {links}, and so for its own end: none of them goes on",
            f"cancel one of them: txqueue cancel {cycle[0]}",
            Gravity.ACT,
        )


_REPEATED_STEP: Final = re.compile(r"; to repeat it: (txqueue retry \d+ --from .+)")


def done(facts: Facts) -> Blocker:
    """Return when a job was done."""
    return Blocker("done", f"it was done {ago(facts, 'finished_at')} ago", "nothing: it has run")


def failed(facts: Facts) -> Blocker:
    """Return why a job failed for good."""
    job = facts["job"]
    error = job["error"] or "no reason given"
    # A retry without --from would only read what the step has kept again.
    repeated = _REPEATED_STEP.search(error)
    command = repeated[1].strip() if repeated else f"txqueue retry {job['job_id']}"
    retry = f"fix the cause, then: {command}"
    if error.startswith("poison"):
        detail = f"it is quarantined: {error.removeprefix('poison: ')}"
        return _reopenable(facts, Blocker("quarantine", detail, retry))
    detail = f"it failed for good after {counted(job['attempt'], 'attempt')}: {error}"
    return _reopenable(facts, Blocker("failed", detail, retry))


def cancelled(facts: Facts) -> Blocker:
    """Return when and why a job was cancelled."""
    job = facts["job"]
    why = f": {job['error']}" if job["error"] else ""
    detail = f"it was cancelled {ago(facts, 'finished_at')} ago{why}"
    remedy = f"to run it after all: txqueue retry {job['job_id']}"
    return _reopenable(facts, Blocker("cancelled", detail, remedy))


def _reopenable(facts: Facts, blocker: Blocker) -> Blocker:
    """Return the reason of a failed or cancelled job, or else why a retry of it is refused."""
    obstacles = facts.get("reopening") or {}
    job_id, detail = facts["job"]["job_id"], blocker.detail
    if parents := obstacles.get("parents"):
        return _without_parents(job_id, blocker, parents)
    if obstacles.get("has_unnamed_parents"):
        detail = f"{detail}; it cannot run, as one of its parents is not done"
        remedy = f"to run a copy that waits for none: txqueue repeat {job_id}"
        return evolve(blocker, reason="parents", detail=detail, remedy=remedy)
    if holder := obstacles.get("holder"):
        detail = f"{detail}; job {holder} holds its unique key now"
        remedy = f"once job {holder} has ended: txqueue retry {job_id}"
        return evolve(blocker, reason="unique", detail=detail, remedy=remedy)
    return blocker


def _without_parents(
    job_id: int, blocker: Blocker, parents: Sequence[Mapping[str, Any]]
) -> Blocker:
    names = ", ".join(f"job {parent['job_id']} ({parent['state']})" for parent in parents)
    together = " ".join(str(parent["job_id"]) for parent in parents)
    return evolve(
        blocker,
        reason="parents",
        detail=f"{blocker.detail}; it cannot run unless these are done: {names}",
        remedy=f"retry what it depends on, too: txqueue retry {together} {job_id}",
    )
