"""The worksets that the nodes of these tests work through."""

import os
import signal
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from attrs import define

from txqueue import ExistingTable, Fail, Retry, WorksetItem

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()

TABLES = """
    create table if not exists seen (number bigint not null, attempt int not null);
    create table if not exists document
        (id bigint primary key, title text not null, kind int not null,
         price numeric not null default 12.340000000000000001);
"""
SOON = Retry(attempts=2, first=0.01, jitter=0.0)


@define
class Counted(WorksetItem):
    """Writes that it was seen in the transaction that counts it."""

    number: int
    note: str | None = None

    size = 3
    batch = 50

    @classmethod
    async def perform_part(cls, items: Sequence[Any], part: Any) -> None:
        """Write all of them."""
        async with part.transaction() as txn:
            numbers = [item.number for item in items]
            await txn.execute("insert into seen select unnest(%s), %s", (numbers, part.attempt))


@define
class Single(WorksetItem):
    """Fails, or fails first, or kills its process, as its number says."""

    number: int

    size = 2
    batch = 30
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Behave."""
        if self.number % 100 == 1:
            raise ValueError(f"number {self.number}")
        if self.number % 100 == 2:
            raise Fail("no use")
        if self.number % 100 == 3 and job.attempt == 1:
            raise ValueError("not yet")


@define
class Together(WorksetItem):
    """A part that fails as a whole because of one of its items."""

    number: int

    size = 2
    batch = 60
    retry = SOON

    @classmethod
    async def perform_part(cls, items: Sequence[Any], part: Any) -> None:  # noqa: ARG003 - its signature
        """Fail if the one is among them."""
        if any(item.number == 17 for item in items):
            raise RuntimeError("one of these cannot be")


@define
class Deadly(WorksetItem):
    """One of them kills the process."""

    number: int

    size = 2
    batch = 40

    async def perform(self, job: Any) -> None:
        """Kill, if it is the one."""
        if self.number == 23:
            os.kill(os.getpid(), signal.SIGKILL)


@define
class Reindex(WorksetItem):
    """Documents of the application."""

    id: int
    title: str
    price: Decimal

    size = 3
    batch = 40
    source = ExistingTable("document", key="id", where="kind % 2 = 0")

    @classmethod
    async def perform_part(cls, items: Sequence[Any], part: Any) -> None:
        """Write which they were; one never can be."""
        for item in items:
            assert item.price == Decimal("12.340000000000000001")
            if item.title == "broken":
                part.fail(item, Fail("broken"))
        async with part.transaction() as txn:
            numbers = [item.id for item in items if item.title != "broken"]
            await txn.execute("insert into seen select unnest(%s), %s", (numbers, part.attempt))
