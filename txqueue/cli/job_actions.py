"""The commands that act on jobs, chosen by number or by filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import click

from txqueue.cli import options as cli
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.output import Lines, note_undo, refusal_lines, refusals, show, styled
from txqueue.cli.source import note_unknown_names, operate
from txqueue.errors import AdminRefused
from txqueue.model.humanize import amount
from txqueue.model.operator_acts import ACTS, WORDS, Face, Value, ValueKind

if TYPE_CHECKING:
    from txqueue.admin import Admin


LISTED = 10
# The options that an act has besides those that choose jobs.
_OWN_OPTIONS: Final[Mapping[str, cli.Decorator]] = {
    "restart": click.option(
        "--running-for",
        type=cli.SECONDS,
        help="Only jobs that have been running for 10min, 2h or longer.",
    ),
    "retry": click.option(
        "--from", "step", help="Do this step of each job again, and all after it."
    ),
}


def _choosing(act: str) -> cli.Decorator:
    """Add the options that choose jobs for an act; --state allows those that it changes."""
    return cli.together(
        click.argument("ids", metavar="[ID]...", nargs=-1, type=NUMBER),
        click.option("--all", "is_all", is_flag=True, help="All jobs that match these:"),
        cli.selecting(*cli.JOB_COLUMNS, states=ACTS[act].states),
        cli.on_node(),
        cli.searching(),
    )


def __getattr__(word: str) -> click.Command:
    """Return the command of an act on jobs, with its arguments and the options that choose jobs."""
    if word not in WORDS:
        raise AttributeError(word)
    act = ACTS[name := WORDS[word]]
    # click notes the parameters at the function, which all share.
    acting = partial(_run, name)
    acting.__doc__ = cast("Face", act.face).text
    own = (_OWN_OPTIONS[name],) if name in _OWN_OPTIONS else ()
    parameters = cli.together(*map(_parameter, act.arguments), _choosing(name), *own)
    return command(word)(parameters(acting))


def _parameter(value: Value) -> cli.Decorator:
    """Return what gives a command an argument of its act: an option if it is a flag."""
    if value.kind is ValueKind.FLAG:
        return click.option(value.option, value.name, help=value.said, is_flag=True)
    reads = cli.Read(value.name, value.read)
    return click.argument(value.name, metavar=value.said.upper(), type=reads)


def _run(
    name: str,
    options: GlobalOptions,
    /,
    ids: Sequence[int],
    step: str | None = None,
    **choices: Any,
) -> int:
    """Act on jobs and print the result; return 1 if a job given by number was refused.

    Args:
        name: The name of the act.
        options: The global options.
        ids: The numbers of the jobs, if they are given.
        step: The step from which on the jobs are retried, if there is one.
        choices: The arguments of the act, and the filters that choose jobs.
    """
    arguments = {value.name: choices.pop(value.name) for value in ACTS[name].arguments}
    filters = _filters(ids, choices, is_harmless=name == "retry" and step is None)

    async def run(admin: Admin) -> dict[str, list[Any]]:
        job_ids = ids or await _matching(admin, name, filters)
        errors: dict[int, AdminRefused] = {}
        if step is None:
            answer = await admin.act(name, ids=job_ids, **arguments)
        else:
            answer = await _retry_from(admin, job_ids, step, errors)
        return {**answer, "reasons": await refusals(admin, name, answer["refused"], errors)}

    document = operate(options, run)

    def lines() -> Lines:
        for value in ACTS[name].gives:
            if document[value.name]:
                style = "yellow" if value.name == "refused" else ""
                text = value.said.format(**arguments)
                yield styled(f"{_jobs_text(document[value.name])} {text}.", style)
        yield from refusal_lines(document["reasons"])
        if not any(document.values()):
            yield styled("No such job.")

    show(options, document, lines)
    note_undo(options, *document["acts"])
    if not any(document.values()):
        note_unknown_names(options, filters)
    return int(bool(ids and document["refused"]))


def _filters(
    ids: Sequence[int], choices: dict[str, Any], *, is_harmless: bool
) -> Mapping[str, Any]:
    """Return the filters by which jobs are meant; none are needed only if that does no harm."""
    is_all = choices.pop("is_all")
    filters = {"node": choices.pop("on_node"), **choices}
    has_filter = any(value is not None for value in filters.values())
    if ids and (is_all or has_filter):
        raise click.UsageError("give job numbers or --all with filters, not both")
    if not ids and not (is_all and (has_filter or is_harmless)):
        raise click.UsageError("give job numbers, or --all with filters")
    return filters


async def _matching(admin: Admin, act: str, filters: Mapping[str, Any]) -> list[int]:
    """Return the jobs that match filters and that an act changes, not only the longest-running."""
    filters = {**filters, "act": act}
    least, after = filters.pop("running_for", None), None
    found: list[int] = []
    while True:
        page = await admin.jobs_page(after=after, **filters)
        found += [job["job_id"] for job in page.jobs if _has_run(job, page.at, least)]
        if (after := page.next) is None:
            return found


def _has_run(job: Mapping[str, Any], now: datetime, least: float | None) -> bool:
    if least is None:
        return True
    return bool(job["started_at"]) and (now - job["started_at"]).total_seconds() >= least


async def _retry_from(
    admin: Admin, ids: Sequence[int], step: str, errors: dict[int, AdminRefused]
) -> dict[str, list[int]]:
    """Retry jobs from a step on; note why some are refused."""
    for job_id in ids:
        try:
            await admin.retry_from(job_id, step)
        except AdminRefused as error:
            errors[job_id] = error
    return {
        "retried": [job_id for job_id in ids if job_id not in errors],
        "refused": list(errors),
        "acts": [],
    }


def _jobs_text(ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"Job {ids[0]}:"
    listed = f" ({', '.join(map(str, ids))})" if len(ids) <= LISTED else ""
    return f"{amount(len(ids))} jobs{listed}:"
