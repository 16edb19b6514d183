"""``txqueue migrate`` and ``txqueue health``: for deployments and probes."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from typing import Any

import click

from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.output import Lines, note, show, styled
from txqueue.cli.source import ask_node
from txqueue.errors import TxqueueError


@command()
@click.option("--sql", is_flag=True, help="Print the script for an empty database; run nothing.")
def migrate(options: GlobalOptions, sql: bool) -> None:
    """Create or upgrade the schema; safe on many hosts at once.

    Examples:
        migrate
        migrate --sql
    """
    from txqueue.store.schema import migrations

    if sql:
        text = migrations.schema_sql(options.chosen_schema)
        if options.json:
            show(options, {"sql": text}, lambda: ())
        else:
            # Unchanged, without wrapping or colours.
            click.echo(text, nl=False)
        return
    report = migrations.migrate(options.chosen_dsn, options.chosen_schema)
    document = {
        "from": report.before,
        "to": report.after,
        "applied": report.applied,
        "advanced": report.advanced,
    }
    show(options, document, lambda: _lines(document, options.chosen_schema))
    if report.advanced:
        note(
            options,
            f"These sequences were behind their tables, and were set: {', '.join(report.advanced)}."
            " Jobs enqueued before have numbers that other jobs may have.",
        )
    if report.shared:
        note(
            options,
            f"These roles existed already, perhaps for another database of this server: "
            f"{', '.join(report.shared)}. Their members have the same rights here."
            " A schema of another name (--schema) has roles of its own.",
        )


def _lines(report: Mapping[str, Any], schema: str) -> Lines:
    if not report["applied"]:
        yield styled(f"Schema {schema} is up to date at version {report['to']}.")
        return
    before = f"brought from version {report['from']}" if report["from"] else "created and brought"
    yield styled(f"Schema {schema} {before} to version {report['to']}.")
    for step in report["applied"]:
        yield styled(f"  applied {step}", "dim")


# Seconds that a node has to answer, of the 5 seconds that the whole command may take.
PATIENCE = 4.0


@command()
@click.option("--ready", is_flag=True, help="Fail unless the node can start jobs now.")
def health(options: GlobalOptions, ready: bool) -> int:
    """Tell whether the node of this host is live, or ready.

    Examples:
        health
        health --ready
    """
    try:
        health_answer = ask_node(options, lambda admin: admin.health(), patience=PATIENCE)
    except TxqueueError as error:
        # A node that does not answer is not live.
        reason = " ".join(str(error).split())
        health_answer = {"live": False, "ready": False, "reason": reason}
    # No table: the libraries that draw tables would take most of the command's time.
    click.echo(json_text.dumps(health_answer) if options.json else health_answer["reason"])
    return 0 if health_answer["ready" if ready else "live"] else 1
