"""A pipe to a peer that may hang, lie or flood: it harms only this connection."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.abstract import FileDescriptor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.protocols.amp import (
    COMMAND,
    UNKNOWN_ERROR_CODE,
    AmpBox,
    Command,
    IBoxSender,
    IResponderLocator,
    RemoteAmpError,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from txqueue.system.clock import Clock, Timer
from txqueue.wire.box_codec import Box, BoxReader
from txqueue.wire.pipe import Pipe, Responder, Responders

__all__ = ["GuardedPipe"]

# Seconds that a stranger has to prove its identity.
INTRODUCTION = 5
# Bytes and keys of a box, for strangers and for known peers; AMP itself has no limit.
STRANGER_BOX, LARGEST_BOX = 2_048, 1_048_576
STRANGER_KEYS, MOST_KEYS = 16, 64
# Boxes a second on average, and how many may come at once.
BOX_RATE, BOX_BURST = 2_000.0, 4_000.0
# Commands being carried out at a time: more are not read before one of them is answered.
MOST_CALLS = 32
# Seconds that what is sent may wait until the other end reads it.
UNREAD = 10


@implementer(IPushProducer)
class GuardedPipe(Pipe):
    """One end that closes the connection when the other end breaks a rule.

    Args:
        clock: Limits how long the other end may take.
        responders: For each command the function that carries it out.
        lost: Called once when the connection is gone.

    Attributes:
        is_known: Whether the other end has proved its identity.
        is_closed: Whether we have hung up.
        why_dropped: The rule that was broken; None if none was.
    """

    is_known = False
    is_closed = False
    why_dropped: str | None = None
    _allowance = BOX_BURST
    _counted_at = float("-inf")
    _calls = 0
    _is_paused = False
    _deadline: Timer | None = None
    _unread: Timer | None = None

    def __init__(self, clock: Clock, responders: Responders, lost: Callable[[], None]) -> None:
        self._clock = clock
        self._held: deque[Box] = deque()
        super().__init__(responders, lost)
        self._boxes = BoxReader(STRANGER_BOX, STRANGER_KEYS)

    def connectionMade(self) -> None:
        """Give the other end some seconds to prove its identity."""
        if self.is_closed:
            self.close()
        else:
            self._read_at_a_time(STRANGER_BOX)
            self._wait(INTRODUCTION)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Wait no more, and be gone at once: in circles, many would wait for the collector."""
        self.is_closed = True
        self._stop_waiting()
        super().connectionLost(reason)
        self._commands = {}
        self._dispatcher.startReceivingBoxes(_NOWHERE)
        self._dispatcher.locator = _NOWHERE

    def introduce(self) -> None:
        """From now on the other end is known and may say anything."""
        self.is_known = True
        self._boxes.most_bytes, self._boxes.most_keys = LARGEST_BOX, MOST_KEYS
        self._read_at_a_time(FileDescriptor.bufferSize)
        _cancel(self._deadline)

    def drop(self, why: str) -> None:
        """Hang up at once, and read nothing more, because of a rule that was broken."""
        if self.why_dropped is None and not self.is_closed:
            self.why_dropped = why
        self.close()

    def close(self) -> None:
        """Hang up at once, and read nothing more."""
        self.is_closed = True
        self._stop_waiting()
        self.abort()

    def refuse(self, why: str) -> None:
        """Close the connection that sent what is no box, or too large a one."""
        self.drop(why)

    def take(self, box: Box) -> None:
        """Take a box, if not too many come; a command waits while enough are carried out."""
        if self.is_closed:
            return
        if not self._may_come():
            self.drop("sent too many boxes")
        elif COMMAND in box and (self._held or self._is_busy):
            self._held.append(box)
            self._read_on(False)
        else:
            self._take(box)

    def hear(self, command: type[Command], function: Callable[..., Any], box: Box) -> None:  # noqa: ARG002 - found again
        """Carry out a command that wants no answer: it counts as long as it is carried out."""
        self.dispatch(box)

    def locateResponder(self, name: bytes) -> Responder | None:
        """Find what carries out a command; it counts as long as that takes."""
        responder = super().locateResponder(name)
        return None if responder is None else partial(self._counted, responder)

    def _counted(self, responder: Responder, box: Box) -> Deferred[AmpBox]:
        """Carry a command out; one that cannot be is the other end's fault, and needs no log."""
        self._calls += 1
        carrying_out = maybeDeferred(responder, box)
        carrying_out.addErrback(self._not_carried_out)
        return carrying_out.addBoth(self._carried_out)

    def sendBox(self, box: AmpBox) -> None:
        """Send a question or an answer, if the other end is still there."""
        if not self.is_closed:
            super().sendBox(box)

    def unhandledError(self, failure: Failure) -> None:
        """Close the connection that sent an unexpected argument, without a traceback."""
        self.drop(f"{type(failure.value).__name__} in what it sent")

    # What the transport says: whether the other end reads what it is sent.

    def watch_reading(self) -> None:
        """Have the transport say so. Over TLS only once the handshake is over: it reads as well."""
        if self.connection is not None:
            self.connection.registerProducer(self, True)

    def pauseProducing(self) -> None:
        """The other end does not read: read no more from it, and give it some seconds."""
        if self._unread is None and not self.is_closed:
            self._unread = self._clock.callLater(UNREAD, self.drop, "does not read what it is sent")
            self._read_on(False)

    def resumeProducing(self) -> None:
        """It has read all."""
        _cancel(self._unread)
        self._unread = None
        self._go_on()

    def stopProducing(self) -> None:
        """The connection is gone; that is said otherwise as well."""

    @property
    def _is_busy(self) -> bool:
        return self._calls >= MOST_CALLS or self._unread is not None

    def _take(self, box: Box) -> None:
        try:
            super().take(box)
        except Exception:
            # Neither a command nor an answer to anything that was asked.
            self.drop("sent a box that means nothing")

    def _carried_out(self, result: Any) -> Any:
        self._calls -= 1
        if self._is_paused and not self._is_busy:
            # The answer goes first.
            self._clock.callLater(0, self._go_on)
        return result

    def _go_on(self) -> None:
        """Carry out what was held, and read on when that is done."""
        while self._held and not self._is_busy and not self.is_closed:
            self._take(self._held.popleft())
        if not self._is_busy and not self.is_closed:
            self._read_on(True)

    def _read_at_a_time(self, most: int) -> None:
        """Have the socket be read so many bytes at a time; under TLS it is another's transport."""
        socket: Any = getattr(self.transport, "transport", self.transport)
        socket.bufferSize = most

    def _read_on(self, is_reading: bool) -> None:
        self._is_paused = not is_reading
        if self.connection is None:
            return
        if is_reading:
            self.connection.resumeProducing()
        else:
            self.connection.pauseProducing()

    def _not_carried_out(self, failure: Failure) -> Failure:
        if failure.check(RemoteAmpError):
            return failure
        self.drop(f"{type(failure.value).__name__} in a command")
        return Failure(RemoteAmpError(UNKNOWN_ERROR_CODE, "not carried out"))

    def _may_come(self) -> bool:
        now = time.monotonic()
        self._allowance = min(BOX_BURST, self._allowance + (now - self._counted_at) * BOX_RATE) - 1
        self._counted_at = now
        return self._allowance >= 0

    def _wait(self, seconds: float) -> None:
        """Give the other end so many seconds from now."""
        _cancel(self._deadline)
        self._deadline = self._clock.callLater(
            seconds, self.drop, "did not prove its identity in time"
        )

    def _stop_waiting(self) -> None:
        self._held.clear()
        _cancel(self._deadline)
        _cancel(self._unread)


@implementer(IBoxSender, IResponderLocator)
class _Nowhere:
    """The other end of a connection that is gone: late answers are lost, and errors with them."""

    def sendBox(self, box: AmpBox) -> None:
        pass

    def unhandledError(self, failure: Failure) -> None:
        pass

    def locateResponder(self, name: bytes) -> None:  # noqa: ARG002 - Twisted's
        return None


_NOWHERE = _Nowhere()


def _cancel(timer: Timer | None) -> None:
    if timer is not None and timer.active():
        timer.cancel()
