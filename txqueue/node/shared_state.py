"""The state that the services of a node share: objects that call no service."""

from __future__ import annotations

from functools import cached_property

from txqueue.node.database_notices import DatabaseNotices
from txqueue.node.deduplication import Deduplicator
from txqueue.node.inbox import Inbox
from txqueue.node.lease import Lease
from txqueue.node.lifecycle import Lifecycle
from txqueue.node.meters import Meters
from txqueue.node.peer_table import PeerTable
from txqueue.node.reactor import IMasterReactor
from txqueue.node.settings import NodeSettings
from txqueue.node.wakeups import Wakeups

__all__ = ["SharedState"]


class SharedState:
    """The state objects of a node, each made on first use.

    Args:
        reactor: The master's reactor.
        settings: The node's settings.
    """

    def __init__(self, reactor: IMasterReactor, settings: NodeSettings) -> None:
        self.reactor = reactor
        self.settings = settings

    @cached_property
    def lease(self) -> Lease:
        """The node's lease, written by the lease keeper."""
        return Lease(self.settings.lease)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """The state of the node: whether it takes jobs, drains or ends."""
        return Lifecycle(self.reactor)

    @cached_property
    def wakeups(self) -> Wakeups:
        """The alarms by which services wake each other."""
        return Wakeups(self.reactor)

    @cached_property
    def deduplicator(self) -> Deduplicator:
        """Remembers which assignments have arrived."""
        return Deduplicator()

    @cached_property
    def inbox(self) -> Inbox:
        """The assignments that messages have named and that are still to be read."""
        return Inbox(self.wakeups)

    @cached_property
    def notices(self) -> DatabaseNotices:
        """What notifications have said."""
        return DatabaseNotices(self.wakeups)

    @cached_property
    def meters(self) -> Meters:
        """What the node has counted and timed since its start."""
        return Meters()

    @cached_property
    def peer_table(self) -> PeerTable:
        """The table of peers."""
        return PeerTable(self.reactor)
