"""Runs a coroutine for code that has no reactor, such as the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore
from twisted.python.failure import Failure


def run_in_reactor(function: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run a coroutine function in the reactor; possible only once in a process."""
    results: list[Any] = []

    async def run(reactor: IReactorCore) -> Any:
        return await function(reactor)

    def main(reactor: IReactorCore) -> Deferred[None]:
        return Deferred.fromCoroutine(run(reactor)).addBoth(results.append)

    # react() always ends with SystemExit, whether the function succeeded or failed.
    with suppress(SystemExit):
        task.react(main)
    if not results:
        raise KeyboardInterrupt
    if isinstance(results[0], Failure):
        results[0].raiseException()
    return results[0]
