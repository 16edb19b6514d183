"""The walk of one work item from `txn.enqueue()` to its statement: each call leads downwards."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, cast

import pytest
from attrs import define, field
from cryptography.fernet import Fernet
from opentelemetry.sdk.trace import TracerProvider

from tests.unit.test_floors import PACKAGES
from txqueue import WorkItem
from txqueue.store.driver.connection import Connection
from txqueue.store.enqueueing.encryption import KEY
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.tracing.spans import Spans


@define
class Plain(WorkItem):
    """Some work."""

    number: int

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Encrypted(Plain):
    """The same, with a payload that only its handler may read."""

    encrypted = True


class Answering:
    """A connection on which each statement returns the number of a job at once."""

    is_idle = False

    async def query_often(self, sql: str, parameters: Sequence[object]) -> list[tuple[int]]:
        """Return a row."""
        return [(7,)]


@define
class Walk:
    """The calls between packages of txqueue, from a lower floor to a higher one."""

    climbs: list[str] = field(factory=list)
    rooms: set[str] = field(factory=set)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Compare the floor of a function with that of its nearest caller in txqueue."""
        room = _room_of(frame) if event == "call" else None
        if room is None:
            return
        self.rooms.add(room)
        caller = frame.f_back
        while caller is not None and _room_of(caller) is None:
            caller = caller.f_back
        origin = None if caller is None else _room_of(caller)
        if origin is not None and PACKAGES[room] > PACKAGES[origin]:
            self.climbs.append(f"{origin} calls {room}: {frame.f_code.co_name}")


def _room_of(frame: FrameType) -> str | None:
    """The package of a function, if it has a floor."""
    name = ".".join(str(frame.f_globals.get("__name__")).split(".")[:2])
    return name if name in PACKAGES else None


@pytest.mark.parametrize("work", [Plain(1), Encrypted(1)])
@pytest.mark.parametrize("is_traced", [False, True])
def test_no_call_climbs(work: WorkItem, is_traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces and encryption included: what a lower floor needs is passed to it."""
    monkeypatch.setenv(KEY, Fernet.generate_key().decode())
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    spans = [Spans(tracer)] if is_traced else []
    monkeypatch.setattr("txqueue.tracing.choice._active", lambda: spans)
    walk, txn = Walk(), Transaction(cast("Connection", Answering()), "txqueue")
    enqueueing = txn.enqueue(work, priority=3)
    sys.setprofile(walk.note)
    try:
        with pytest.raises(StopIteration) as ended:
            enqueueing.send(None)
    finally:
        sys.setprofile(None)
    assert ended.value.value == 7
    assert {"txqueue.store", "txqueue.tracing", "txqueue.model"} <= walk.rooms
    assert walk.climbs == []
