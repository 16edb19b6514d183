"""``txqueue migrate``, ``health`` and ``certs``: for deployments and probes."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Decorator, GlobalOptions, Group, command
from txqueue.cli.output import Lines, note, show, styled
from txqueue.cli.source import ask_node
from txqueue.errors import TxqueueError

if TYPE_CHECKING:
    from txqueue.wire.certificate_authority import Made


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


_folder = click.option(
    "--dir",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The authority's folder; keep it off the hosts of the nodes.",
)


def _lasting(days: int) -> Decorator:
    return click.option(
        "--days",
        type=click.IntRange(1, 36_500),
        default=days,
        show_default=True,
        help="For how many days the certificate is valid.",
    )


@click.group(cls=Group, no_args_is_help=False)
def certs() -> None:
    """Make the certificates of nodes and operators.

    Examples:
        certs init --dir CERTS
        certs issue node-1 --dir CERTS
    """
    from txqueue.wire.tls import require_packages

    require_packages()


@command(within=certs)
@_folder
@_lasting(3650)
def init(options: GlobalOptions, folder: Path, days: int) -> None:
    """Make a certificate authority: ca.pem, for every host, and ca.key, which stays here.

    Examples:
        certs init --dir CERTS
    """
    from txqueue.wire.certificate_authority import make_authority

    _tell(options, make_authority(folder, days))


@command(within=certs)
@click.argument("name", metavar="NODE")
@_folder
@click.option(
    "--operator", is_flag=True, help="Make the certificate of an operator instead of a node."
)
@_lasting(825)
def issue(options: GlobalOptions, name: str, folder: Path, operator: bool, days: int) -> None:
    """Issue a certificate for the node with this --name: NODE.pem and NODE.key.

    Examples:
        certs issue node-1 --dir CERTS
        certs issue ann --operator --dir CERTS
    """
    from txqueue.wire.certificate_authority import issue as issued
    from txqueue.wire.tls import NODE, OPERATOR

    _tell(options, issued(folder, OPERATOR if operator else NODE, name, days))


def _tell(options: GlobalOptions, files: Made) -> None:
    document = {
        "certificate": str(files.certificate),
        "key": str(files.key),
        "until": files.until.isoformat(),
    }
    told = (
        f"Wrote {document['certificate']}, valid until {document['until'][:10]}.",
        f"Wrote {document['key']}, which only this account can read.",
    )
    show(options, document, lambda: map(styled, told))
