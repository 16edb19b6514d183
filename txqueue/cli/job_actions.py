"""The commands that act on jobs, chosen by number or by filters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import click
from attrs import frozen

from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import (
    JOB_COLUMNS,
    Decorator,
    GlobalOptions,
    Length,
    command,
    on_node,
    searching,
    selecting,
    together,
)
from txqueue.cli.output import Lines, note_undo, refusal_lines, refusals, show, styled
from txqueue.cli.source import note_unknown_names, operate
from txqueue.errors import AdminRefused
from txqueue.model.humanize import amount
from txqueue.model.operator_acts import ACTS, WORDS, Face, Value, ValueKind

if TYPE_CHECKING:
    from txqueue.admin import Admin


Act = Callable[["Admin", Sequence[int], dict[int, AdminRefused]], Awaitable[dict[str, list[int]]]]
BATCH = 1000
LISTED = 10


@frozen
class Chosen:
    """The jobs that a command acts on: given by number, or all that match filters."""

    ids: Sequence[int]
    filters: Mapping[str, Any]

    async def batches(self, admin: Admin, act: str) -> AsyncIterator[list[int]]:
        """Yield the numbers of the jobs that an act changes, some at a time."""
        if self.ids:
            yield list(self.ids)
            return
        batch: list[int] = []
        async for job in self._matching(admin, act):
            batch.append(job["job_id"])
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _matching(self, admin: Admin, act: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the jobs that match the filters, not only those that run longest."""
        filters = {**self.filters, "act": act}
        running_for = filters.pop("running_for", None)
        after = None
        while True:
            page = await admin.jobs_page(after=after, **filters)
            for job in page.jobs:
                if running_for is None or _ran_for(job, page.at) >= running_for:
                    yield job
            if (after := page.next) is None:
                return


def _ran_for(job: Mapping[str, Any], now: datetime) -> float:
    began = job["started_at"]
    return -1.0 if began is None else float((now - began).total_seconds())


def _choosing(act: str) -> Decorator:
    """Add the options that choose jobs for an act; --state allows those that it changes."""
    return together(
        click.argument("ids", metavar="[ID]...", nargs=-1, type=NUMBER),
        click.option("--all", "is_all", is_flag=True, help="All jobs that match these:"),
        selecting(*JOB_COLUMNS, states=ACTS[act].states),
        on_node(),
        searching(),
    )


def __getattr__(word: str) -> click.Command:
    """Return the command of an act on jobs, with its arguments and the options that choose jobs."""
    if word not in WORDS:
        raise AttributeError(word)
    name = WORDS[word]
    act, (run, *added) = ACTS[name], _RUNS.get(name, (partial(_run, name),))
    face = cast("Face", act.face)
    # click notes the parameters at the function, which others may share.
    acting = partial(run)
    acting.__doc__ = face.text
    parameters = together(*map(_parameter, act.arguments), _choosing(name), *added)
    return command(word)(parameters(acting))


def _parameter(value: Value) -> Decorator:
    """Return what gives a command an argument of its act: an option if it is a flag."""
    if value.kind is ValueKind.FLAG:
        return click.option(value.option, value.name, help=value.said, is_flag=True)

    def read(context: click.Context, parameter: click.Parameter, text: str) -> object:
        try:
            return value.read(text)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from None

    return click.argument(value.name, metavar=value.said.upper(), callback=read)


def _run(name: str, options: GlobalOptions, /, ids: Sequence[int], **choices: Any) -> int:
    arguments = {value.name: choices.pop(value.name) for value in ACTS[name].arguments}
    return _carry_out(options, _chosen(ids, choices), name, **arguments)


def _restart(
    options: GlobalOptions, /, ids: Sequence[int], running_for: timedelta | None, **choices: Any
) -> int:
    seconds = None if running_for is None else running_for.total_seconds()
    return _run("restart", options, ids, running_for=seconds, **choices)


def _retry(options: GlobalOptions, /, ids: Sequence[int], step: str | None, **filters: Any) -> int:
    chosen = _chosen(ids, filters, is_harmless=step is None)
    act = None if step is None else partial(_retry_from, step)
    return _carry_out(options, chosen, "retry", act)


async def _retry_from(
    step: str, admin: Admin, some: Sequence[int], errors: dict[int, AdminRefused]
) -> dict[str, list[int]]:
    for job_id in some:
        try:
            await admin.retry_from(job_id, step)
        except AdminRefused as error:
            errors[job_id] = error
    refused = [job_id for job_id in some if job_id in errors]
    return {"retried": [each for each in some if each not in errors], "refused": refused}


# What carries an act out, and the options of its own.
_RUNS: Final[Mapping[str, tuple[Any, ...]]] = {
    "restart": (
        _restart,
        click.option(
            "--running-for",
            type=Length(),
            help="Only jobs that have been running for 10min, 2h or longer.",
        ),
    ),
    "retry": (
        _retry,
        click.option("--from", "step", help="Do this step of each job again, and all after it."),
    ),
}


def _chosen(ids: Sequence[int], choices: Mapping[str, Any], *, is_harmless: bool = False) -> Chosen:
    """Return the jobs that a command means; all without a filter only if that does no harm."""
    filters = {name: value for name, value in choices.items() if name != "is_all"}
    filters["node"] = filters.pop("on_node")
    has_filter = any(value is not None for value in filters.values())
    if ids and (choices["is_all"] or has_filter):
        raise click.UsageError("give job numbers or --all with filters, not both")
    if not ids and not (choices["is_all"] and (has_filter or is_harmless)):
        raise click.UsageError("give job numbers, or --all with filters")
    return Chosen(ids, filters)


def _carry_out(
    options: GlobalOptions, chosen: Chosen, name: str, act: Act | None = None, **arguments: Any
) -> int:
    """Act on jobs and print the result; return 1 if a job given by number was refused.

    Args:
        options: The global options.
        chosen: The jobs.
        name: The name of the act.
        act: Acts on some of the jobs in place of the act itself, and notes why jobs were refused.
        arguments: The arguments of the act besides the jobs.
    """
    errors: dict[int, AdminRefused] = {}

    async def act_on(admin: Admin, batch: Sequence[int]) -> dict[str, list[int]]:
        if act is not None:
            return await act(admin, batch, errors)
        return await admin.act(name, ids=batch, **arguments)

    async def run(admin: Admin) -> dict[str, list[Any]]:
        sums: dict[str, list[Any]] = {value.name: [] for value in ACTS[name].gives} | {"acts": []}
        async for batch in chosen.batches(admin, name):
            for result, ids in (await act_on(admin, batch)).items():
                sums[result] += ids
        return {**sums, "reasons": await refusals(admin, name, sums["refused"], errors)}

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
        note_unknown_names(options, chosen.filters)
    return int(bool(chosen.ids and document["refused"]))


def _jobs_text(ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"Job {ids[0]}:"
    listed = f" ({', '.join(map(str, ids))})" if len(ids) <= LISTED else ""
    return f"{amount(len(ids))} jobs{listed}:"
