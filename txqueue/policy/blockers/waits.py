"""The steps at which a job waits: for a signal, a moment or a child."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txqueue.model.humanize import age
from txqueue.model.shell_commands import argument
from txqueue.policy.blockers.reason import Blocker, Facts, seconds_between, shown_moment, until

__all__ = ["at_wait", "awaited"]


def at_wait(facts: Facts) -> Blocker:
    """Return what the job waits for, and since when."""
    job, waits = facts["job"], facts.get("waits") or ()
    if not waits:
        return Blocker("signal", "the signal has just come", "nothing: it goes on in a moment")
    first = waits[0]
    others = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    detail = f"it waits at step {first['name']!r} for {awaited(facts, first)}{others}"
    is_open = first["kind"] == "signal" and not first["until"]
    return Blocker(first["kind"], detail, _remedy(job["job_id"], first), is_open=is_open)


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
