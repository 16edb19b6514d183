"""``txqueue certs``: the certificates of nodes and operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from txqueue.cli.options import Decorator, GlobalOptions, Group, command
from txqueue.cli.output import show, styled

if TYPE_CHECKING:
    from txqueue.wire.certificate_authority import Made


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
