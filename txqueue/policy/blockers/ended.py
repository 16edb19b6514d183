"""Why a job that has ended is in its state, and what keeps it from a retry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from txqueue.model.humanize import counted
from txqueue.policy.blockers.reason import Blocker, Facts, ago

__all__ = ["cancelled", "done", "failed"]

_REPEATED_CALL: Final = re.compile(
    r"this call keeps that; to repeat it: (txqueue retry \d+ --from .+)"
)


def done(facts: Facts) -> Blocker:
    """Return when a job was done."""
    return Blocker("done", f"it was done {ago(facts, 'finished_at')} ago", "nothing: it has run")


def failed(facts: Facts) -> Blocker:
    """Return why a job failed for good."""
    job = facts["job"]
    error = job["error"] or "no reason given"
    # A retry without --from would only read the kept end of the call again.
    repeated = _REPEATED_CALL.search(error)
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
