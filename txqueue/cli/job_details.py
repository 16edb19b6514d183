"""Shows all that is stored about one job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from txqueue.cli.output import Lines, bar, facts, job_state, styled, table
from txqueue.model.humanize import amount, counted, cut, duration, moment, plain
from txqueue.model.tags import tags_of
from txqueue.policy.blockers import DAMAGE_REMEDY

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = ["shown_state", "whole_job"]

PARENTS_NAMED = 5
NAME_SHOWN = 40


def shown_state(row: Mapping[str, Any]) -> Text:
    """Return a job's state, with what it waits for."""
    state, reason = row["state"], _reason(row)
    return job_state(state, f"{state}: {reason}" if reason else state)


def _reason(row: Mapping[str, Any]) -> str | None:
    """Return what a job waits for."""
    if wait := row.get("wait"):
        return f"signal {cut(wait['signal'], NAME_SHOWN)}" if wait["signal"] else str(wait["kind"])
    reason: str | None = row["waiting_for"]
    return reason


def whole_job(row: Mapping[str, Any], now: datetime) -> Lines:
    """Yield the lines about a job, as `about_job` returns it."""
    yield facts(_facts(row, now))
    for name in ("payload", "result", "options"):
        if row[name] is not None:
            yield ""
            yield styled(name.capitalize(), "bold")
            yield from map(styled, json.dumps(row[name], indent=2, ensure_ascii=False).splitlines())
    if row["error"]:
        yield ""
        yield styled("Error", "bold red")
        yield from map(styled, row["error"].rstrip().splitlines())
    if row.get("stages"):
        yield ""
        yield _stages(row["stages"], now)
    if row.get("attempts"):
        yield ""
        yield _attempts(row["attempts"], now, is_staged=bool(row.get("stages")))
        yield from _log_of_last(row["attempts"])
    if row["actions"]:
        yield ""
        columns = ["when", "who", "did"]
        acts = ([moment(act["at"], now), act["who"], act["what"]] for act in row["actions"])
        yield table("Acts of operators", columns, acts)


def _stages(rows: Sequence[Mapping[str, Any]], now: datetime) -> RenderableType:
    return table(
        "Earlier stages",
        [">stage", "type", ">runs", "node", "ended", ">last took"],
        (_stage(stage, now) for stage in rows),
    )


def _stage(row: Mapping[str, Any], now: datetime) -> list[object]:
    took = duration((row["ended"] - row["began"]).total_seconds()) if row["began"] else "-"
    runs, node = amount(row["runs"]), row.get("node") or "-"
    return [str(row["stage"]), row["work_type"], runs, node, moment(row["ended"], now), took]


def _attempts(
    rows: Sequence[Mapping[str, Any]], now: datetime, *, is_staged: bool
) -> RenderableType:
    columns = [">run", "when", "took", "node", "class", "error"]
    cells = [_attempt(attempt, now) for attempt in rows]
    if is_staged:
        columns.insert(0, "stage")
        cells = [[attempt["work_type"], *row] for attempt, row in zip(rows, cells, strict=True)]
    is_restarted = any(attempt.get("restarted_by") for attempt in rows)
    title = "Failed and restarted runs" if is_restarted else "Failed attempts"
    return table(title, columns, cells)


def _attempt(row: Mapping[str, Any], now: datetime) -> list[object]:
    took = (row["at"] - row["began"]).total_seconds() if row["began"] else None
    return [
        str(row["attempt"]),
        moment(row["at"], now),
        "-" if took is None else duration(took),
        row["node"] or "-",
        row["error_class"] or "-",
        (row["error"] or "").splitlines()[0] if row["error"] else "-",
    ]


def _log_of_last(rows: Sequence[Mapping[str, Any]]) -> Lines:
    """Yield the log of the last attempt that has one; ``--json`` has those of all."""
    logged = [attempt for attempt in rows if attempt["log"]]
    if logged:
        yield ""
        yield styled(f"Log of run {logged[-1]['attempt']}", "bold")
        yield from map(styled, logged[-1]["log"].splitlines())


def _progress(row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the progress that a job's handler reported, and that of the job's workset."""
    progress = row.get("progress")
    if isinstance(progress, list) and len(progress) == 3:
        done, total, text = progress
        yield "progress", bar(done, total) if total else f"{done:g}"
        if text:
            yield "", text
    if workset := row.get("workset"):
        ended = workset["done"] + workset["failed"]
        yield f"workset {workset['name']}", bar(ended, workset["total"])


def _facts(row: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, object]]:
    yield "job", str(row["job_id"])
    archived = " (archived)" if row.get("archived") else ""
    yield "state", shown_state(row).append(archived)
    yield from _wait(row, now)
    if row.get("damage"):
        yield "damaged", styled(f"{row['damage']}; {DAMAGE_REMEDY}", "red")
    yield "type", row["work_type"]
    yield "queue", row["queue"]
    yield "priority", str(row["priority"])
    yield "weight", str(row["weight"])
    for name in ("group", "tenant"):
        if row[name]:
            yield name, row[name]
    if tags := tags_of(row["options"]):
        yield "tags", ", ".join(f"{name}={plain(value)}" for name, value in tags.items())
    yield from _parents(row["options"])
    if creator := _option(row, "created_by"):
        yield "created by", plain(creator)
    yield "runs", _runs(row)
    yield from _progress(row)
    if row["node"]:
        yield "node", row["node"]
    for name in ("enqueued", "assigned", "started", "finished"):
        if row[f"{name}_at"]:
            yield name, moment(row[f"{name}_at"], now)
    if row["actions"]:
        last = row["actions"][0]
        yield "last act", plain(f"{last['what']} by {last['who']}, {moment(last['at'], now)}")
    yield from _bounds(row, now)
    if row["finished_at"] and row["assigned_at"]:
        took = (_end_of_run(row) - row["assigned_at"]).total_seconds()
        waited = (row["assigned_at"] - row["enqueued_at"]).total_seconds()
        yield "took", f"{duration(took)}, after {duration(waited)} in the queue"


def _wait(row: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, object]]:
    """Yield the step at which a job waits."""
    if wait := row.get("wait"):
        yield "waits at", f"step {wait['step']}, since {moment(wait['since'], now)}"
        if wait["until"]:
            yield "until", moment(wait["until"], now)


def _bounds(row: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, object]]:
    """Yield when a job is to start; that of a wait says the step."""
    if row["not_before"] > row["enqueued_at"] and not row.get("wait"):
        yield "not before", moment(row["not_before"], now)
    if row["not_after"]:
        yield "not after", moment(row["not_after"], now)


def _option(row: Mapping[str, Any], name: str) -> Any:
    options = row["options"]
    return options.get(name) if isinstance(options, dict) else None


def _end_of_run(row: Mapping[str, Any]) -> datetime:
    """Return when a job's last run ended: before its cancellation, if that was after a failure."""
    last = row["attempts"][-1] if row.get("attempts") else None
    is_given_up = row["state"] == "cancelled" and last and last["attempt"] == row["attempt"]
    end: datetime = last["at"] if last and is_given_up else row["finished_at"]
    return end


def _parents(options: object) -> Iterator[tuple[str, object]]:
    """Yield the jobs that a job waits for or waited for, with their outcomes."""
    if not isinstance(options, dict) or not options.get("after"):
        return
    after, ends = options["after"], options.get("parents")
    job_names = f"{after} jobs"
    if isinstance(after, list):
        rest = len(after) - PARENTS_NAMED
        job_names = ", ".join(map(str, after[:PARENTS_NAMED])) + (
            f" and {rest} more" if rest > 0 else ""
        )
    counts = [f"{ends[end]} {end}" for end in ends if ends[end]] if isinstance(ends, dict) else []
    yield "follows", plain(job_names + (f" ({', '.join(counts)})" if counts else ""))


def _runs(row: Mapping[str, Any]) -> str:
    most = _option(row, "attempts") or (row["policy"] or {}).get("attempts")
    died = f", {counted(row['deaths'], 'worker')} died with it" if row["deaths"] else ""
    return plain(f"{row['attempt']} of {most}" if most else row["attempt"]) + died
