"""``txqueue migrate``: creates or upgrades the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import note, show, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["migrate"]


@click.command(cls=Command, short_help="Create the schema or bring it up to date.")
@click.option("--sql", is_flag=True, help="Print what an empty database would run; run nothing.")
@click.pass_obj
def migrate(options: GlobalOptions, sql: bool) -> None:
    """Create the schema or bring it up to date; safe when many do it at once."""
    from txqueue.store import migrations

    if sql:
        _print_sql(options, migrations.schema_sql(options.chosen_schema))
        return
    report = migrations.migrate(options.chosen_dsn, options.chosen_schema)
    document = {"from": report.before, "to": report.after, "applied": report.applied}
    show(options, document, lambda: _lines(document, options.chosen_schema))
    if report.shared:
        note(
            options,
            f"There are roles of these names already, for another database of this server perhaps: "
            f"{', '.join(report.shared)}. Their members have the same rights here."
            " A schema of another name (--schema) has roles of its own.",
        )


def _print_sql(options: GlobalOptions, text: str) -> None:
    """Print a script as it is: wrapped or coloured it would be another one."""
    if options.json:
        show(options, {"sql": text}, lambda: ())
    else:
        click.echo(text, nl=False)


def _lines(report: Mapping[str, Any], schema: str) -> Iterator[RenderableType]:
    if not report["applied"]:
        yield styled(f"Schema {schema} is up to date at version {report['to']}.")
        return
    before = f"brought from version {report['from']}" if report["from"] else "created and brought"
    yield styled(f"Schema {schema} {before} to version {report['to']}.")
    for step in report["applied"]:
        yield styled(f"  applied {step}", "dim")
