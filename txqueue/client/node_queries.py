"""Queries a node about itself at its admin endpoint."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import TimeoutError
from twisted.internet.error import ConnectError, ConnectionClosed

from txqueue.errors import NodeUnavailable
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.pipe import Pipe, PipeFactory
from txqueue.wire.worker_commands import Inspect

__all__ = ["inspect_node"]

PATIENCE = 10


async def inspect_node(reactor: Any, endpoint: Endpoint) -> dict[str, Any]:
    """Return a node's description of itself.

    Args:
        reactor: Connects.
        endpoint: Where the node listens.

    Raises:
        NodeUnavailable: When nothing answers there in time, or the answer is not a node's.
    """
    pipe = Pipe({}, lost=lambda: None)
    try:
        await endpoint.connect(reactor, PipeFactory(pipe), PATIENCE)
        answer = await pipe.say(Inspect).addTimeout(PATIENCE, reactor)
        node: dict[str, Any] = json.loads(answer["node"])
    except (ConnectError, ConnectionClosed, TimeoutError) as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise NodeUnavailable(
            f"no node answers at {endpoint}: {said}",
            "check that the node runs, and give the --admin or --state-dir it was started with",
        ) from None
    finally:
        pipe.abort()
    return node
