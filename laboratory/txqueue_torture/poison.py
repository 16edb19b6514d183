"""Work that kills the process that runs it, each kind in its own way."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Any, Final

from attrs import define
from twisted.internet.defer import Deferred

from txqueue.model.job_policy import Retry
from txqueue.model.work_item import WorkItem
from txqueue_torture.work import SOON, Draw, Order, diary, kind, noted

__all__ = ["Closes", "Crashes", "EatsMemory", "Exits", "IsEaten"]

# How much memory, in bytes, a worker may use beyond what it has at its start.
HEADROOM: Final = 192 << 20
BITE: Final = 8 << 20
MOST_DESCRIPTORS: Final = 4096
# The index of the pages of data and stack in Linux's statm.
DATA: Final = 5


@define
class Exits(WorkItem):
    """Work that exits its worker process, as a command-line program would."""

    intent: str

    work_type = "txqueue_torture.exits"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the start and exit."""
        diary().note("start", job, self.intent)
        os._exit(3)


@define
class Crashes(WorkItem):
    """Work that causes a segmentation fault, as a broken library does."""

    intent: str

    work_type = "txqueue_torture.crashes"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the start and crash."""
        diary().note("start", job, self.intent)
        ctypes.string_at(0)


@define
class EatsMemory(WorkItem):
    """Work that uses all memory of its worker process, and then aborts it as C programs do."""

    intent: str

    work_type = "txqueue_torture.eats_memory"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the start, use all memory, and abort."""
        diary().note("start", job, self.intent)
        try:
            _eat()
        except MemoryError:
            os.abort()


@define
class IsEaten(WorkItem):
    """Work that uses all memory of its worker process, and raises a MemoryError."""

    intent: str

    work_type = "txqueue_torture.is_eaten"
    retry = Retry(attempts=3, first=0.05)

    async def perform(self, job: Any) -> None:
        """Use memory until Python raises a MemoryError."""
        with noted(job, self.intent):
            _eat()


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(b"x" * BITE)


@define
class Closes(WorkItem):
    """Work that closes all descriptors of its process, as a library that makes daemons does."""

    intent: str
    is_waiting: bool

    work_type = "txqueue_torture.closes"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the start, close them, and return, or wait without end."""
        diary().note("start", job, self.intent)
        os.closerange(0, MOST_DESCRIPTORS)
        if self.is_waiting:
            await Deferred()


@kind("closes")
def _closes(draw: Draw) -> Order:
    return Order(Closes(draw.intent, draw.number % 2 == 1))


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
    """Limit this process's memory, and make it leave no core dumps."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[DATA])
    most = pages * resource.getpagesize() + HEADROOM
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


# Limit worker processes only, not a client that enqueues poison.
if "txqueue.worker.master_link" in sys.modules:
    _limit()
