"""The list of databases: how each one is, at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen
from twisted.internet.defer import Deferred, gatherResults

from txqueue.policy.facts.live_jobs import Rest
from txqueue.store.reads.queue_state import about_all
from txqueue.web.databases import database_path
from txqueue.web.messages import PageRequest, Reply
from txqueue.web.page_services import IndexServices
from txqueue.web.pages.overview import sums
from txqueue.web.reads import Figures, Reads

__all__ = ["DatabaseCard", "database_card", "database_list"]

# Seconds to wait for all databases; then the last figures of the others are shown.
_PATIENCE: Final = 1.0
# The sums of no queue.
_NONE: Final[Mapping[str, Any]] = {**Rest().as_dict(), "done_per_second": 0.0}
# The warnings that the overview shows in red.
_GRAVE: Final = frozenset({"dead_node", "no_node", "unserved_queue"})


@frozen
class DatabaseCard:
    """What the list shows of a database.

    Attributes:
        name: Its name.
        path: The path of its pages.
        figures: How current this is, and what is wrong; the value is None if it was never read.
        sums: The figures of all queues together.
        alive: How many nodes are alive.
        nodes: How many nodes there are, those that were stopped left out.
        warnings: How many warnings there are.
        grave: How many of these are grave.
    """

    name: str
    path: str
    figures: Figures[Any]
    sums: Mapping[str, Any]
    alive: int
    nodes: int
    warnings: int
    grave: int


async def database_list(services: IndexServices, request: PageRequest) -> Reply:
    """Show all databases; one that does not answer delays the page by a second at most."""
    cards = await gatherResults(
        Deferred.fromCoroutine(_read(name, reads)) for name, reads in services.databases.items()
    )
    return services.show("databases", request, cards=cards)


def database_card(name: str, figures: Figures[dict[str, Any] | None]) -> DatabaseCard:
    """Return what the list shows of a database.

    Args:
        name: Its name.
        figures: The figures of its overview.
    """
    overview = figures.value or {"queues": [], "other_queues": _NONE, "nodes": [], "warnings": []}
    nodes = [node["state"] for node in overview["nodes"] if node["state"] != "stopped"]
    return DatabaseCard(
        name=name,
        path=database_path(name),
        figures=figures,
        sums=sums(overview["queues"], overview["other_queues"]),
        alive=nodes.count("alive"),
        nodes=len(nodes),
        warnings=len(overview["warnings"]),
        grave=sum(warning["kind"] in _GRAVE for warning in overview["warnings"]),
    )


async def _read(name: str, reads: Reads) -> DatabaseCard:
    return database_card(name, await reads.latest("overview", about_all, _PATIENCE))
