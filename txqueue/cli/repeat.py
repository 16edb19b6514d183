"""``txqueue repeat``: enqueues jobs that have ended once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import Command, Options
from txqueue.cli.output import show, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["repeat"]


@click.command(cls=Command, short_help="Enqueue jobs that have ended once more.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=NUMBER)
@click.pass_obj
def repeat(options: Options, ids: Sequence[int]) -> None:
    """Enqueue jobs that have ended once more, each as a new one with the same payload.

    All or none: a job that has not ended is refused.
    """
    from txqueue.store.reading import Session

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        session.ensure_version()
        with session.transaction():
            call = f"select {session.schema}.repeat(%s, '')"
            numbers = [int(session.value(call, (job_id,))) for job_id in ids]
    repeated = [{"job_id": old, "new_id": new} for old, new in zip(ids, numbers, strict=True)]
    show(options, {"repeated": repeated}, lambda: _lines(ids, numbers))


def _lines(ids: Sequence[int], numbers: Sequence[int]) -> Iterator[RenderableType]:
    for old, new in zip(ids, numbers, strict=True):
        yield styled(f"Job {old} is enqueued once more, as job {new}.")
