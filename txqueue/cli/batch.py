"""``txqueue batch``: the progress of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from txqueue.cli.archived_jobs import or_archived
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import Lines, bar, facts, job_state, show
from txqueue.cli.source import read_database
from txqueue.model.humanize import amount

__all__ = ["batch"]


@click.command(cls=Command, short_help="Show the progress of a batch.")
@click.argument("job_id", metavar="ID", type=NUMBER)
@click.pass_obj
def batch(options: GlobalOptions, job_id: int) -> None:
    """Show the progress of the batch whose callback is the job ID."""
    from txqueue.store.reads.batch_progress import about_batch, archived_batch

    document = or_archived(
        options,
        job_id,
        lambda: read_database(options, lambda schema: about_batch(schema, job_id)),
        archived_batch,
    )
    show(options, document, lambda: _lines(document))


def _lines(document: Mapping[str, Any]) -> Lines:
    ended = document["jobs"] - document["left"]
    state = job_state(document["state"])
    yield facts(
        [
            ("batch", str(document["batch"])),
            ("ended", bar(ended, document["jobs"])),
            ("", f"{amount(ended)} of {amount(document['jobs'])}"),
            *((name, amount(document[name])) for name in ("done", "failed", "cancelled")),
            ("calls back", document["work_type"]),
            ("which is", state),
        ]
    )
