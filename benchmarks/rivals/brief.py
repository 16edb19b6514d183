"""Jobs of 1 ms in few and many slots, and in batches: what `Rival` does not measure of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from attrs import frozen

from benchmarks.rivals.rival import WORKERS, Figures, Rival, Stage, drain_speed, ended, percentiles

SLOTS = (4, 16, 64)
"""How many jobs all workers together run at a time."""
SLOT_JOBS = 1000
"""How many jobs there are for each slot."""
BRIEF_SLOTS = 64
SINGLE_RATE, SINGLE_SECONDS = 200, 10
READ_SECONDS = 2.0


@frozen
class Pace:
    """Batches at a steady pace: jobs a second, for how many seconds, in batches of how many."""

    rate: int
    seconds: int
    batch: int

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return self.rate * self.seconds

    def batches(self) -> Iterator[range]:
        """Give the numbers of each batch, from 1, at its moment."""
        began = time.monotonic()
        for first in range(1, self.jobs + 1, self.batch):
            time.sleep(max(0.0, began + (first - 1) / self.rate - time.monotonic()))
            yield range(first, first + self.batch)


OFFERED = Pace(rate=10_000, seconds=5, batch=100)
"""More than most queues can run."""
BATCHED = Pace(rate=800, seconds=10, batch=10)


@frozen
class BriefRival(Rival):
    """Another queue whose program has jobs of 1 ms."""

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The measurements, in their order."""
        return {
            **super().stages,
            "slots": self.slots,
            "pressure": self.pressure,
            "reads": lambda _: self.ask("read", READ_SECONDS),
            "batches": self.batches,
        }

    def slots(self, _: int) -> Figures:
        """Measure drains with some numbers of slots."""
        return {f"slots_{count}": self._slotted(count) for count in SLOTS}

    def _slotted(self, count: int) -> float:
        self.ask("bulk", count * SLOT_JOBS, "brief")
        return self.drain(kind=f"slots_{count // WORKERS}")

    def pressure(self, _: int) -> Figures:
        """Measure what runs of more than can run, and how soon."""
        told = self.paced(OFFERED)
        return {"pressure": told["ran"], "pressure_p99": told["p99"]}

    def batches(self, _: int) -> Figures:
        """Measure how soon single jobs and those of batches start."""
        single = self.latency(SINGLE_RATE * SINGLE_SECONDS, 1000 / SINGLE_RATE)
        return {**named("single", single), **named("batch", self.paced(BATCHED))}

    def paced(self, pace: Pace) -> Figures:
        """Return how many of such jobs ran in a second, and how soon they started."""
        workers = [self.begin_ready(f"slots_{BRIEF_SLOTS // WORKERS}") for _ in range(WORKERS)]
        every = 1000 * pace.batch / pace.rate
        self.ask("send", pace.jobs, every, "brief", pace.batch)
        self.wait_until_done()
        told = [*map(ended, workers)]
        took = percentiles(chain.from_iterable(each["took"] for each in told))
        return {"ran": drain_speed(told), **took}


def named(name: str, figures: Figures) -> Figures:
    """Return figures with a word before their names."""
    return {f"{name}_{part}": figure for part, figure in figures.items()}


def per_second(call: Callable[[], Any], seconds: float = READ_SECONDS) -> float:
    """Return how often a call returns in a second, once it has warmed up."""
    for _ in range(10):
        call()
    began, count = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        call()
        count += 1
    return count / passed
