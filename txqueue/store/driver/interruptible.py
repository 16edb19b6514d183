"""Blocking calls of the driver that Ctrl-C interrupts at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread, current_thread, main_thread
from typing import TypeVar

__all__ = ["interruptible"]

T = TypeVar("T")


def interruptible(call: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Return what a call of the driver returns; an interrupt does not wait for its end.

    Python handles a signal only once libpq returns, which may take as long as a query. So the call
    is made in a thread, for which the main thread waits.

    Args:
        call: The call.
        cancel: Called at an interrupt, so that the server gives up the statement.

    Raises:
        KeyboardInterrupt: At an interrupt.
    """
    if current_thread() is not main_thread():
        return call()
    made: Future[T] = Future()
    # At an interrupt the process may end before the call does.
    thread = Thread(target=_make, args=(made, call), daemon=True)
    thread.start()
    try:
        made.exception()
    except KeyboardInterrupt:
        cancel()
        raise
    thread.join()
    return made.result()


def _make(made: Future[T], call: Callable[[], T]) -> None:
    try:
        made.set_result(call())
    except BaseException as error:
        made.set_exception(error)
