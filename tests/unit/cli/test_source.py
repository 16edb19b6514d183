"""What commands say if it is unknown which database a node serves."""

from typing import Any, cast

import pytest

from txqueue.cli.source import _ensure_serves
from txqueue.errors import AdminRefused, NodeUnavailable
from txqueue.store.schema.files import QueueIdentity


class RefusingNode:
    """A node whose role may not read which queue it serves."""

    async def queue(self) -> QueueIdentity:
        """Refuse to say; what a node answers has its remedy in the text."""
        raise AdminRefused("no right; grant it")


async def test_a_node_that_does_not_say_which_queue_it_serves() -> None:
    """The two remedies are two sentences."""
    meant = QueueIdentity("identity", "the database d")

    with pytest.raises(AdminRefused) as caught:
        await _ensure_serves(cast("Any", RefusingNode()), meant)
    assert str(caught.value) == (
        "whether the node serves the named database cannot be checked: no right; grant it;"
        " name no database: leave out --dsn and TXQUEUE_DSN"
    )


class ServingNode:
    """A node of another queue, of a server that is reached by the same address."""

    async def queue(self) -> QueueIdentity:
        """Return the other queue."""
        return QueueIdentity("other", "the database d")


async def test_two_queues_of_one_address_are_not_told_apart_by_it() -> None:
    """The refusal does not name the same place twice."""

    with pytest.raises(NodeUnavailable) as caught:
        await _ensure_serves(cast("Any", ServingNode()), QueueIdentity("meant", "the database d"))
    assert caught.value.what == (
        "the command names the database d, and the node serves another one of that address"
    )
