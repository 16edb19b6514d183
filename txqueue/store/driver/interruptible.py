"""Blocking calls of the driver that Ctrl-C interrupts at once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread, current_thread, main_thread
from typing import Any, Generic, TypeVar

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
    making = _Making(call)
    try:
        making.join()
    except KeyboardInterrupt:
        cancel()
        raise
    return making.result()


class _Making(Thread, Generic[T]):
    """Makes a call in a thread; a future of the standard library would import logging as well."""

    def __init__(self, call: Callable[[], T]) -> None:
        # At an interrupt the process may end before the call does.
        super().__init__(daemon=True)
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Make the call."""
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """Return what the call has returned, or raise its error."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                # The error's traceback has this frame.
                self._error = None
        value: T = self._value
        return value
