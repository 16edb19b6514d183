"""``txqueue worksets`` and ``txqueue tenants``: how far worksets are; which tenants have jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import bar, show, styled, table
from txqueue.cli.source import looked_up
from txqueue.model.humanize import age, amount

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["tenants", "worksets"]


@click.command(cls=Command, short_help="Show how far the worksets are, and what failed.")
@click.argument("name", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many items."
)
@click.pass_obj
def worksets(options: GlobalOptions, name: str | None, limit: int) -> None:
    """Show how far the worksets are, or which items of one have failed."""
    from txqueue.store.queries import about_workset_failures, about_worksets

    if name is None:
        rows = looked_up(options, about_worksets)
        show(options, {"worksets": rows}, lambda: _worksets(rows))
    else:
        failed = looked_up(options, lambda schema: about_workset_failures(schema, name, limit))
        show(options, {"workset": name, "failed": failed}, lambda: _failures(failed))


@click.command(cls=Command, short_help="Show which tenants have jobs.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many."
)
@click.pass_obj
def tenants(options: GlobalOptions, limit: int) -> None:
    """Show which tenants have jobs, those with the most ready ones first."""
    from txqueue.store.queries import about_tenants

    rows = looked_up(options, lambda schema: about_tenants(schema, limit))
    show(options, {"tenants": rows}, lambda: _tenants(rows))


def _worksets(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    if not rows:
        yield styled("No workset was filled or started.")
        return
    columns = ["workset", "done", "", ">of", ">failed", ">jobs"]
    yield table("Worksets", columns, (_workset_row(row) for row in rows))


def _workset_row(row: Mapping[str, Any]) -> list[object]:
    ended = row["done"] + row["failed"]
    return [
        row["name"],
        bar(ended, row["total"]),
        amount(ended),
        amount(row["total"]) if row["is_exact"] else f"about {amount(row['total'])}",
        styled(amount(row["failed"]), "red" if row["failed"] else ""),
        f"{row['jobs']} of {row['size']}" if row["is_started"] else "not started",
    ]


def _failures(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    if not rows:
        yield styled("No item of it has failed.")
        return
    columns = ["item", ">runs", "error"]
    lines = ([row["key"], str(row["attempt"]), row["error"].splitlines()[0]] for row in rows)
    yield table("Failed items", columns, lines)


def _tenants(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    if not rows:
        yield styled("No tenant has jobs.")
        return
    columns = ["tenant", ">ready", ">waiting", ">running", ">failed", ">oldest", ">share", ">limit"]
    yield table("Tenants", columns, (_tenant_row(row) for row in rows))


def _tenant_row(row: Mapping[str, Any]) -> list[object]:
    oldest = row["oldest_ready_seconds"]
    return [
        f"{row['tenant']} (paused)" if row["is_paused"] else row["tenant"],
        *(amount(row[name]) for name in ("ready", "waiting", "assigned", "failed")),
        "-" if oldest is None else age(oldest),
        f"{row['share']:g}",
        "-" if row["concurrency"] is None else str(row["concurrency"]),
    ]
