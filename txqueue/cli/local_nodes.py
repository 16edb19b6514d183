"""Finds the nodes of this host and account by their sockets, and the one that a command means."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from txqueue.errors import AdminRefused, NodeUnavailable

if TYPE_CHECKING:
    from txqueue.admin import Admin
    from txqueue.store.schema.version import QueueIdentity
    from txqueue.system.settings import Settings

__all__ = ["chosen_endpoint", "local_endpoints", "only_endpoint"]

Connect = Callable[[str], Awaitable["Admin"]]

# Seconds in which the kernel accepts a connection to a socket at which a process listens.
PATIENCE = 1.0


def local_endpoints(settings: Settings) -> list[str]:
    """Return where nodes of this host listen: first the one with the set name, or the host's.

    Raises:
        NodeUnavailable: When there is no socket of a node.
    """
    own = Path(settings.own_socket().removeprefix("unix:"))
    others = sorted(set(own.parent.glob("*.sock")) - {own})
    paths = [own, *others] if own.exists() else others
    if not paths:
        raise NodeUnavailable(
            f"no node is named, and none of this host listens at {own}",
            "start one here (twistd -n txqueue --app MODULE), or name a running node by its --admin"
            " endpoint: --node ENDPOINT or TXQUEUE_NODE",
        )
    # A killed node leaves its socket.
    answering = paths if len(paths) == 1 else list(filter(_answers, paths))
    return [f"unix:{path}" for path in answering or paths[:1]]


def only_endpoint(endpoints: Sequence[str], own: str) -> str:
    """Return the endpoint of the host's own node, or else of its only node.

    Raises:
        NodeUnavailable: When there are several others.
    """
    if len(endpoints) == 1 or endpoints[0] == own:
        return endpoints[0]
    raise NodeUnavailable(
        f"this host has {len(endpoints)} nodes: {', '.join(endpoints)}",
        "name one: --node ENDPOINT",
    )


async def chosen_endpoint(
    endpoints: Sequence[str], own: str, meant: QueueIdentity | None, connect: Connect
) -> str:
    """Return the endpoint of a node that may act: any node acts for all of its database.

    Args:
        endpoints: Where nodes listen, as `local_endpoints` returns it.
        own: Where the node listens that has the name of the settings, or of the host.
        meant: Which queue is meant, if the command names a database.
        connect: Connects to a node.

    Raises:
        NodeUnavailable: When the nodes serve different databases, and none of them is named.
    """
    if len(endpoints) == 1 or (meant is None and endpoints[0] == own):
        return endpoints[0]
    served = {endpoint: await _served(endpoint, connect) for endpoint in endpoints}
    if meant is not None:
        fitting = [
            endpoint for endpoint, queue in served.items() if queue.identity == meant.identity
        ]
        return fitting[0] if fitting else endpoints[0]
    if len({queue.identity for queue in served.values()}) == 1:
        return endpoints[0]
    queues = "; ".join(f"{endpoint} serves {queue.place}" for endpoint, queue in served.items())
    raise NodeUnavailable(
        f"the nodes of this host serve different databases: {queues}",
        "name a node, --node ENDPOINT, or a database, --dsn DSN",
    )


async def _served(endpoint: str, connect: Connect) -> QueueIdentity:
    from txqueue.store.schema.version import QueueIdentity

    try:
        async with await connect(endpoint) as admin:
            return await admin.queue()
    except (AdminRefused, NodeUnavailable):
        return QueueIdentity(identity=endpoint, place="a database that it does not tell")


def _answers(path: Path) -> bool:
    """Tell whether a process listens at a socket; one that hangs does."""
    with closing(socket.socket(socket.AF_UNIX)) as trial:
        trial.settimeout(PATIENCE)
        try:
            trial.connect(str(path))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True
