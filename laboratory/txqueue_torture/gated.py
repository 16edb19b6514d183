"""Work that waits at a gate, for scenarios that decide when its runs end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import define

from txqueue.model.work_item import WorkItem
from txqueue_torture.recorder import FOLDER_VARIABLE
from txqueue_torture.work import SOON, Draw, Order, kind, noted, sleep_for

__all__ = ["GATED", "Gated", "Held", "ends_of", "gate", "has_begun", "open_gate"]

GATED = "txqueue_torture.unnoted.gated"
LOOK_EVERY = 0.05


@define
class Gated(WorkItem):
    """Work that records its start, and its end once its gate is open.

    Attributes:
        label: Identifies the job, as a restored database gives its number to another one.
        gate: The name of the gate.
    """

    label: str
    gate: str

    work_type = GATED

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - a handler takes it
        """Record the start, wait until the gate is open, and record the end."""
        folder = Path(os.environ[FOLDER_VARIABLE])
        (folder / f"{self.label}.began").touch()
        await _opened(self.gate)
        with (folder / f"{self.label}.ended").open("a") as ends:
            ends.write(f"{time.time()}\n")


@define
class Held(WorkItem):
    """Work that records its run as other work does, and ends once its gate is open."""

    intent: str
    gate: str

    work_type = "txqueue_torture.held"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run, and wait until the gate is open."""
        with noted(job, self.intent):
            await _opened(self.gate)


@kind("held")
def _held(draw: Draw) -> Order:
    return Order(Held(draw.intent, draw.value))


async def _opened(name: str) -> None:
    """Wait until a gate is open."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    while not gate(folder, name).exists():
        await sleep_for(LOOK_EVERY)


def gate(folder: Path, name: str) -> Path:
    """Return the file whose existence means that a gate is open."""
    return folder / f"{name}.gate"


def open_gate(folder: Path, name: str) -> None:
    """Let all runs that wait at a gate end."""
    gate(folder, name).touch()


def has_begun(folder: Path, label: str) -> bool:
    """Tell whether a run of a job has begun."""
    return (folder / f"{label}.began").exists()


def ends_of(folder: Path, label: str) -> Iterator[float]:
    """Yield when the runs of a job have ended, by this host's clock."""
    path = folder / f"{label}.ended"
    if path.exists():
        yield from map(float, path.read_text().split())
