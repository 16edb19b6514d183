"""``txqueue worksets`` and ``txqueue tenants``: show the progress of worksets, and tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from txqueue.cli.options import Command, GlobalOptions, limited
from txqueue.cli.output import Lines, bar, listing, show, styled
from txqueue.cli.source import read_database
from txqueue.model.humanize import age, amount


@click.command(cls=Command, short_help="Show the progress of worksets, or failed items.")
@click.argument("name", required=False)
@limited(text="List at most this many items.")
@click.pass_obj
def worksets(options: GlobalOptions, name: str | None, limit: int) -> None:
    """Show the progress of worksets, or the failed items of one."""
    from txqueue.store.reads.schedule_list import about_workset_failures, about_worksets

    if name is None:
        rows = read_database(options, about_worksets)
        show(options, {"worksets": rows}, lambda: _worksets(rows))
    else:
        failed = read_database(options, lambda schema: about_workset_failures(schema, name, limit))
        show(options, {"workset": name, "failed": failed}, lambda: _failures(failed))


@click.command(cls=Command, short_help="Show the tenants that have jobs.")
@limited(50)
@click.pass_obj
def tenants(options: GlobalOptions, limit: int) -> None:
    """Show the tenants that have jobs, those with the most ready ones first."""
    from txqueue.store.reads.queue_state import about_tenants

    rows = read_database(options, lambda schema: about_tenants(schema, limit))
    show(options, {"tenants": rows}, lambda: _tenants(rows))


def _worksets(rows: Sequence[Mapping[str, Any]]) -> Lines:
    columns = ["workset", "ended", ">done", ">failed", ">of", ">jobs"]
    return listing(
        "Worksets",
        columns,
        (_workset_row(row) for row in rows),
        "No workset was filled or started.",
    )


def _workset_row(row: Mapping[str, Any]) -> list[object]:
    ended = row["done"] + row["failed"]
    return [
        row["name"],
        bar(ended, row["total"]),
        amount(row["done"]),
        styled(amount(row["failed"]), "red" if row["failed"] else ""),
        amount(row["total"]) if row["is_exact"] else f"about {amount(row['total'])}",
        f"{row['jobs']} of {row['size']}" if row["is_started"] else "not started",
    ]


def _failures(rows: Sequence[Mapping[str, Any]]) -> Lines:
    # In a workset's own table, an item has its number in a part; in an application's, a key.
    has_parts = any(row["part"] for row in rows)
    columns = [*[">part"] * has_parts, "item", ">runs", "error"]
    lines = (
        [
            *[str(row["part"])] * has_parts,
            row["key"],
            str(row["attempt"]),
            row["error"].splitlines()[0],
        ]
        for row in rows
    )
    return listing("Failed items", columns, lines, "No item of it has failed.")


def _tenants(rows: Sequence[Mapping[str, Any]]) -> Lines:
    columns = ["tenant", ">ready", ">waiting", ">running", ">failed", ">oldest", ">share", ">limit"]
    return listing("Tenants", columns, map(_tenant_row, rows), "No tenant has jobs.")


def _tenant_row(row: Mapping[str, Any]) -> list[object]:
    oldest = row["oldest_ready_seconds"]
    return [
        f"{row['tenant']} (paused)" if row["is_paused"] else row["tenant"],
        *(amount(row[name]) for name in ("ready", "waiting", "assigned", "failed")),
        "-" if oldest is None else age(oldest),
        f"{row['share']:g}",
        "-" if row["concurrency"] is None else str(row["concurrency"]),
    ]
