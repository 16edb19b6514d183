"""Work that kills the process that runs it, each kind in its own way."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Any, Final

from attrs import define

from txqueue.model.retry import Retry
from txqueue.model.work_item import WorkItem
from txqueue.torture.work import SOON, Draw, Order, diary, kind, noted

__all__ = ["Crashes", "EatsMemory", "Exits", "IsEaten"]

# What a worker may take beyond what it has as it starts; the jobs of these scenarios need little.
HEADROOM: Final = 192 << 20
BITE: Final = 8 << 20
# Where Linux tells the pages of a process's data and stack.
DATA: Final = 5


@define
class Exits(WorkItem):
    """Ends its process as a command would."""

    intent: str

    work_type = "txqueue.torture.exits"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Note it and exit."""
        diary().note("start", job, self.intent)
        os._exit(3)


@define
class Crashes(WorkItem):
    """Reads where no memory is, as a broken library does."""

    intent: str

    work_type = "txqueue.torture.crashes"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Note it and crash."""
        diary().note("start", job, self.intent)
        ctypes.string_at(0)


@define
class EatsMemory(WorkItem):
    """Eats all memory its process may have; then the process is aborted, as C programs are."""

    intent: str

    work_type = "txqueue.torture.eats_memory"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Note it, and eat."""
        diary().note("start", job, self.intent)
        try:
            _eat()
        except MemoryError:
            os.abort()


@define
class IsEaten(WorkItem):
    """Eats all memory its process may have, and hears of it as Python code does."""

    intent: str

    work_type = "txqueue.torture.is_eaten"
    retry = Retry(attempts=3, first=0.05)

    async def perform(self, job: Any) -> None:
        """Eat until it raises."""
        with noted(job, self.intent):
            _eat()


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(b"x" * BITE)


@kind("exits")
def _exits(draw: Draw) -> Order:
    return Order(Exits(draw.intent))


@kind("crashes")
def _crashes(draw: Draw) -> Order:
    return Order(Crashes(draw.intent))


@kind("eats_memory")
def _eats_memory(draw: Draw) -> Order:
    return Order(EatsMemory(draw.intent))


@kind("is_eaten")
def _is_eaten(draw: Draw) -> Order:
    return Order(IsEaten(draw.intent))


def _limit() -> None:
    """Have this process get no more memory than it needs, and leave no core behind."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[DATA])
    most = pages * resource.getpagesize() + HEADROOM
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


# Only a worker process imports this; a client that enqueues poison takes none.
if "txqueue.worker.service" in sys.modules:
    _limit()
