"""The run that blocks a worker, as the worker names it when its master asks."""

import os
import signal
from collections.abc import Iterator
from contextvars import Context
from typing import Any, cast

import pytest
from attrs import define

from txqueue.model.run_log import RUNNING, LoggedRun, RunLog
from txqueue.system.inflight import InFlight
from txqueue.worker.running.waiting_run import name_blocking_run


@define
class Run:
    """A run of a job."""

    id: int
    work_type: str = "test"
    attempt: int = 1
    log: RunLog | None = None


@pytest.fixture
def in_flight() -> Iterator[InFlight]:
    """The memory that a master reads, in a process that names the run that blocks it."""
    former: Any = signal.getsignal(signal.SIGURG)
    memory = InFlight(10)
    name_blocking_run(memory)
    yield memory
    signal.signal(signal.SIGURG, former)


def ask() -> None:
    """Ask as a master does."""
    os.kill(os.getpid(), signal.SIGURG)


def in_a_handler_of(job_id: int) -> None:
    """Ask while a handler of a job runs."""

    def handle() -> None:
        RUNNING.set(cast("LoggedRun", Run(job_id)))
        ask()

    Context().run(handle)


def test_the_job_whose_handler_runs_is_named(in_flight: InFlight) -> None:
    """Another one, if that blocks by the next time; none, if no handler runs."""
    assert in_flight.blocker == 0
    in_a_handler_of(7)
    assert in_flight.blocker == 7
    in_a_handler_of(8)
    assert in_flight.blocker == 8
    ask()
    assert in_flight.blocker == 0
