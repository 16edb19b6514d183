"""``txqueue worksets`` and ``txqueue tenants``: show the progress of worksets, and tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from txqueue.cli.options import GlobalOptions, command, limited
from txqueue.cli.output import Columns, Lines, age_of, amount_of, bar, listing, show, styled
from txqueue.cli.source import read_database
from txqueue.model.humanize import amount


@command()
@click.argument("name", required=False)
@limited(text="List at most this many items.")
def worksets(options: GlobalOptions, name: str | None, limit: int) -> None:
    """Show the progress of worksets, or the failed items of one.

    Examples:
        worksets
        worksets import-7
    """
    from txqueue.store.reads.schedule_list import about_workset_failures, about_worksets

    if name is None:
        rows = read_database(options, about_worksets)
        show(options, {"worksets": rows}, lambda: listing("Worksets", _WORKSETS, rows, _NO_WORKSET))
    else:
        failed = read_database(options, about_workset_failures, name, limit)
        show(options, {"workset": name, "failed": failed}, lambda: _failures(failed))


@command()
@limited(50)
def tenants(options: GlobalOptions, limit: int) -> None:
    """Show the tenants that have jobs.

    Those with the most ready ones come first.

    Examples:
        tenants
        tenants --limit 100
    """
    from txqueue.store.reads.queue_state import about_tenants

    rows = read_database(options, about_tenants, limit)
    show(options, {"tenants": rows}, lambda: listing("Tenants", _TENANTS, rows, _NO_TENANT))


_NO_WORKSET, _NO_TENANT = "No workset was filled or started.", "No tenant has jobs."
_WORKSETS: Columns = {
    "workset": "name",
    "ended": lambda row: bar(row["done"] + row["failed"], row["total"]),
    ">done": amount_of("done"),
    ">failed": lambda row: styled(amount(row["failed"]), "red" if row["failed"] else ""),
    ">of": lambda row: f"{'' if row['is_exact'] else 'about '}{amount(row['total'])}",
    ">jobs": lambda row: f"{row['jobs']} of {row['size']}" if row["is_started"] else "not started",
}
_TENANTS: Columns = {
    "tenant": lambda row: f"{row['tenant']}{' (paused)' if row['is_paused'] else ''}",
    ">ready": amount_of("ready"),
    ">waiting": amount_of("waiting"),
    ">running": amount_of("assigned"),
    ">failed": amount_of("failed"),
    ">oldest": age_of("oldest_ready_seconds"),
    ">share": lambda row: f"{row['share']:g}",
    ">limit": "concurrency",
}


def _failures(rows: Sequence[Mapping[str, Any]]) -> Lines:
    # In a workset's own table, an item has its number in a part; in an application's, a key.
    has_parts = any(row["part"] for row in rows)
    parts: Columns = {">part": "part"} if has_parts else {}
    columns: Columns = {
        **parts,
        "item": "key",
        ">runs": "attempt",
        "error": lambda row: row["error"].splitlines()[0],
    }
    return listing("Failed items", columns, rows, "No item of it has failed.")
