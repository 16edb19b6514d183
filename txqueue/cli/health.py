"""``txqueue health``: tells whether a node is live or ready, for probes."""

from __future__ import annotations

import json as json_text
from typing import Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.source import ask_node
from txqueue.errors import TxqueueError

__all__ = ["health"]

# Seconds that a node has to answer, of the 5 seconds that the whole command may take.
PATIENCE = 4.0


@click.command(cls=Command)
@click.option("--ready", is_flag=True, help="Fail unless the node can start jobs now.")
@click.pass_obj
def health(options: GlobalOptions, ready: bool) -> int:
    """Tell whether the node of this host is live, or ready."""
    health_answer = _node_answer(options)
    # No table: the libraries that draw tables would take most of the command's time.
    click.echo(json_text.dumps(health_answer) if options.json else health_answer["reason"])
    return 0 if health_answer["ready" if ready else "live"] else 1


def _node_answer(options: GlobalOptions) -> dict[str, Any]:
    """Return the answer of the node; a node that does not answer is not live."""
    try:
        return ask_node(options, lambda admin: admin.health(), patience=PATIENCE)
    except TxqueueError as error:
        return {"live": False, "ready": False, "reason": " ".join(str(error).split())}
