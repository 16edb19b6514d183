"""The state of the queues, from the database's counts; and names that a filter may have meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import field, frozen

from txqueue.model.humanize import amount, cut, meant

Row = Mapping[str, Any]

UNENDED = ("waiting", "ready", "assigned")
STATES = (*UNENDED, "failed")
"""The states of live jobs, failed ones included."""

SERVING = ("alive", "draining")
"""The states of nodes that have a lease."""

MOST_SERVED = 1000
"""How many of the queues and work types that nodes serve are listed, whatever jobs they have."""


@frozen
class Rest:
    """The queues, or work types, that are left out of a list, together.

    Attributes:
        names: How many there are.
        jobs: The number of their jobs in each state.
    """

    names: int = 0
    jobs: Mapping[str, int] = field(factory=dict)

    def as_dict(self) -> dict[str, int]:
        """Return all numbers."""
        return {"names": self.names, **{state: self.jobs.get(state, 0) for state in STATES}}


@frozen
class LiveJobs:
    """The numbers of jobs that are not history; names may be very many, so that only some are kept.

    Attributes:
        queues: Of the queues with the most jobs, and those that nodes serve: by queue, state and
            waiting_for.
        work_types: Of the work types with the most jobs, and those that nodes have: by work_type
            and state.
        other_queues: The queues left out; no node serves one of them, unless nodes serve more than
            `MOST_SERVED`.
        other_types: The work types left out, likewise.
    """

    queues: Sequence[Row]
    work_types: Sequence[Row]
    other_queues: Rest = Rest()
    other_types: Rest = Rest()

    def total(self, *states: str) -> int:
        """Return the number of all jobs in some states."""
        listed: int = sum(row["jobs"] for row in self.queues if row["state"] in states)
        return listed + sum(self.other_queues.jobs.get(state, 0) for state in states)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.queues)


def served_queues(
    nodes: Iterable[Row], states: Collection[str] = ("alive",)
) -> dict[str, list[str]]:
    """Return which of the nodes serve each queue, of those in some states."""
    served: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] in states:
            for queue in node["queues"]:
                served.setdefault(queue, []).append(node["name"])
    return served


LIMITS = ("concurrency", "rate", "burst", "share", "reserve", "backlog")
"""The limits that an operator can set on a queue, a group or a tenant."""


def living_first(nodes: Iterable[Row]) -> list[Row]:
    """Return nodes as people look at them: those that live by name, then those that ended last."""

    def place(node: Row) -> tuple[float, str]:
        # A node that cannot reach its database describes only itself.
        is_living = node["state"] in SERVING
        return (-1.0 if is_living else node.get("heartbeat_seconds", 0.0), node["name"])

    return sorted(nodes, key=place)


def worker_state(worker: Row) -> str:
    """Return the state of a worker process that its node describes, in one word."""
    if not worker["is_ready"]:
        return "starting"
    if worker["is_stuck"]:
        return "stuck"
    if worker["is_late"]:
        return "blocked"
    # Nodes of older versions do not say it.
    if worker.get("is_ending"):
        return "ending"
    if worker["is_apart"]:
        return "suspects"
    return "crowded" if worker["is_crowded"] else "ready"


def queues(
    live: Iterable[Row], recent: Iterable[Row], nodes: Sequence[Row], now: datetime
) -> list[dict[str, Any]]:
    """Summarize each queue that has jobs, recently had some, or is served by a node.

    Args:
        live: The number of unended or failed jobs by queue, state and waiting_for.
        recent: How many jobs each queue completed recently, and since when.
        nodes: The nodes.
        now: The time by the database's clock.

    Returns:
        One dictionary for each queue, sorted by name.
    """
    rows_by_name: dict[str, dict[str, Any]] = {}
    served = served_queues(nodes)
    for name in sorted(served)[:MOST_SERVED]:
        rows_by_name[name] = _empty(name)
    for row in live:
        _count(rows_by_name.setdefault(row["queue"], _empty(row["queue"])), row, now)
    for row in recent:
        queue = rows_by_name.setdefault(row["queue"], _empty(row["queue"]))
        seconds = max((now - row["since"]).total_seconds(), 0.001)
        queue["done_per_second"] = done_rate(row, now)
        queue["done_last_minute"] = row["jobs"] if seconds > 1 else None
    for name, queue in rows_by_name.items():
        queue["nodes"] = served.get(name, [])
    return [rows_by_name[name] for name in sorted(rows_by_name)]


def work_types(
    published: Iterable[Row], live: Iterable[Row], nodes: Iterable[Row]
) -> list[dict[str, Any]]:
    """Summarize each work type that nodes have published or that jobs have.

    Args:
        published: The policies that nodes have published.
        live: The number of unended or failed jobs by work_type and state, with one queue of each.
        nodes: The nodes.

    Returns:
        One dictionary for each work type, sorted by name; ``policy`` is None for an unpublished
        one, ``nodes`` has the names of the live nodes that run it, ``held`` of those on whose
        version the deploy guard holds it.
    """
    rows_by_name = {row["work_type"]: {**row, **_without_jobs()} for row in published}
    for row in live:
        name = row["work_type"]
        unknown = {"work_type": name, "policy": None, "queue": row["queue"], "priority": None}
        kind = rows_by_name.setdefault(name, {**unknown, **_without_jobs()})
        kind[row["state"]] += row["jobs"]
    for node in nodes:
        if node["state"] in SERVING:
            held = (node.get("report") or {}).get("held") or ()
            for key, names in (("nodes", node["work_types"]), ("held", held)):
                for name in rows_by_name.keys() & set(names):
                    rows_by_name[name][key].append(node["name"])
    return [rows_by_name[name] for name in sorted(rows_by_name)]


def _without_jobs() -> dict[str, Any]:
    return {**dict.fromkeys(STATES, 0), "nodes": [], "held": []}


def named_nodes(work_type: Row) -> list[str]:
    """Return the names of the live nodes that have a work type, and which of them hold it."""
    return [*work_type["nodes"], *(f"{name} (held)" for name in work_type["held"])]


def depth(looked: Iterable[Row], most: int, now: datetime) -> dict[str, Any]:
    """Summarize the jobs of one queue or work type from those that were looked at.

    Args:
        looked: By state, and by the run of a node that has them: how many jobs were looked at,
            how many of them count, since when the oldest of these could run, and some of the
            ``others``: the work types of a queue, or the queues of a work type.
        most: How many jobs of a state were looked at, at most.
        now: The time by the database's clock.

    Returns:
        The number in each state; ``partial``, the states in which there may be more;
        ``running_on``, how many jobs each run of a node has; ``oldest_ready_seconds``;
        ``others``; and ``at``, the time.
    """
    rows = list(looked)

    def total(column: str, state: str) -> int:
        return sum(row[column] for row in rows if row["state"] == state)

    assigned = [row for row in rows if row["state"] == "assigned" and row["jobs"]]
    ready = [row["oldest"] for row in rows if row["state"] == "ready" and row["jobs"]]
    ages = [round(max((now - moment).total_seconds(), 0.0), 3) for moment in ready]
    return {
        **{state: total("jobs", state) for state in STATES},
        "partial": {state for state in STATES if total("looked", state) >= most},
        "running_on": {row["incarnation"]: row["jobs"] for row in assigned},
        "oldest_ready_seconds": max(ages, default=None),
        "others": sorted({name for row in rows for name in row["others"] or ()}),
        "at": now,
    }


def largest(rows: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return the rows with the most jobs, in their order, if there are more rows than that."""
    if len(rows) <= most:
        return list(rows)
    by_size = sorted(range(len(rows)), key=lambda at: -sum(rows[at][state] for state in STATES))
    return [rows[at] for at in sorted(by_size[:most])]


def done_rate(row: Row, now: datetime) -> float:
    """Return how many jobs a queue has done a second, to two places."""
    seconds: float = max((now - row["since"]).total_seconds(), 0.001)
    return round(int(row["jobs"]) / seconds, 2)


def _empty(name: str) -> dict[str, Any]:
    empty: Row = {"waiting_for": {}, "oldest_ready_seconds": None, "done_per_second": 0.0}
    return {"queue": name, **dict.fromkeys(STATES, 0), **empty, "done_last_minute": 0, "nodes": []}


def _count(queue: dict[str, Any], row: Row, now: datetime) -> None:
    queue[row["state"]] += row["jobs"]
    if row["waiting_for"]:
        reasons = queue["waiting_for"]
        reasons[row["waiting_for"]] = reasons.get(row["waiting_for"], 0) + row["jobs"]
    if row["state"] == "ready":
        waited = (now - row["oldest"]).total_seconds()
        queue["oldest_ready_seconds"] = round(max(waited, queue["oldest_ready_seconds"] or 0.0), 3)


def hidden_values(policy: Mapping[str, Any] | None, options: Any, progress: Any) -> dict[str, Any]:
    """Return what replaces payload, result and progress note if they must be hidden, or nothing.

    They must be, too, if damaged options cannot tell.
    """
    settings = {**(policy or {}), **(options if isinstance(options, Mapping) else {})}
    is_lost = "txqueue cannot read this" in settings
    for reason in ("encrypted", "redacted"):
        if settings.get(reason) or (is_lost and reason == "redacted"):
            note = _without_note(progress, reason)
            return {"payload": reason, "result": reason, "progress": note}
    return {}


def _without_note(progress: Any, reason: str) -> Any:
    """Return a job's progress with its numbers, and the reason in place of its note."""
    if not isinstance(progress, list):
        return progress and reason
    return [*progress[:2], *(reason for note in progress[2:] if note)]


_NAMED: Final = 5
_LONGEST: Final = 60


def unknown_name(kind: str, name: str, known: Sequence[str], *, is_all: bool) -> str | None:
    """Return the message about a name that does not exist; None for one that does.

    Args:
        kind: What it names: ``queue, work_type, group, tenant`` or ``node``.
        name: The name.
        known: The names that exist.
        is_all: Whether those are all of them; some that jobs had once may be missing.
    """
    # Imported here, as few filters name what does not exist.
    from difflib import get_close_matches

    if name in known:
        return None
    noun = kind.replace("_", " ")
    text = f"No live job, node or limit has the {noun} {cut(name, _LONGEST)}"
    if kind == "node":
        text = f"No node has the name {cut(name, _LONGEST)}"
    if not known:
        return f"{text}; there is no {noun}."
    first = ", ".join(cut(each, _LONGEST) for each in get_close_matches(name, known, _NAMED, 0.0))
    rest = len(known) - _NAMED
    number = f" and {'' if is_all else 'at least '}{amount(rest)} more" if rest > 0 else ""
    return f"{text}; there {'is' if len(known) == 1 else 'are'} {first}{number}."


def unfamiliar(kind: str, key: str, known: Iterable[str]) -> str:
    """Return the warning about a queue, group or tenant without jobs and limits.

    Args:
        kind: Which of the three it is.
        key: Its name.
        known: The names of others, of which the nearest may be meant.
    """
    question = meant(key, set(known))
    hint = question and f"; {question}"
    if kind == "queue":
        return f"no live node serves {key} and it has no jobs{hint}"
    return f"the {kind} {key} has no jobs{hint}"
