"""Timers of our processes do not follow the wall clock."""

import time

import pytest
from twisted.internet.selectreactor import SelectReactor

from txqueue.system.clock import steady


@pytest.mark.parametrize("wall", [0.0, 5e9])
def test_a_wall_clock_that_is_set_moves_no_timer(
    wall: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer of a second comes after a second, whatever the wall clock shows by then."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reactor = steady(SelectReactor)()
    called: list[bool] = []
    reactor.callLater(1.0, called.append, True)
    monkeypatch.setattr(time, "time", lambda: wall)
    now[0] += 0.9
    reactor.runUntilCurrent()
    assert not called
    now[0] += 0.2
    reactor.runUntilCurrent()
    assert called
    reactor.fireSystemEvent("shutdown")
