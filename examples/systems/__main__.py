"""Takes the tour through one of the systems: ``python -m examples.systems NAME``.

The database is that of TXQUEUE_DSN, the node that of TXQUEUE_NODE.
"""

import sys
from importlib import import_module

from twisted.internet.task import react

from txqueue import WorkQueue


async def take_tour(reactor: object, name: str) -> None:
    """Make the tables of an example, and use it."""
    system = import_module(f"examples.systems.{name}")
    queue = await WorkQueue.connect()
    async with queue.transaction() as txn:
        await txn.execute(system.TABLES)
    await system.tour(queue)
    await queue.close()


if __name__ == "__main__":
    react(take_tour, sys.argv[1:])
