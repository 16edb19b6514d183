"""A pipe to somebody who may hang, lie or flood: it harms only this connection."""

from __future__ import annotations

import time
from typing import Any

from twisted.protocols.amp import UNKNOWN_ERROR_CODE, AmpBox, RemoteAmpError
from twisted.python.failure import Failure

from txqueue.wire.pipe import Pipe

__all__ = ["GuardedPipe"]

# Bytes of a box, of a stranger's and of somebody known; AMP itself has no limit.
STRANGER_BOX, LARGEST_BOX = 2_048, 1_048_576
# Boxes a second on average, and how many may come at once.
BOX_RATE, BOX_BURST = 2_000.0, 4_000.0


class GuardedPipe(Pipe):
    """One end that hangs up on whoever breaks a rule.

    Attributes:
        is_known: Whether the other end has shown who it is.
        why_dropped: The rule that was broken; None if none was.
    """

    is_known = False
    why_dropped: str | None = None
    _is_closed = False
    _unfinished = 0
    _allowance = BOX_BURST
    _counted_at = float("-inf")

    def drop(self, why: str) -> None:
        """Hang up at once, and read nothing more, because of a rule that was broken."""
        if self.why_dropped is None:
            self.why_dropped = why
        self.close()

    def close(self) -> None:
        """Hang up at once, and read nothing more."""
        self._is_closed = True
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def locateResponder(self, name: bytes) -> Any:
        """Find what carries out a command; of AMP's own there is none, such as to start TLS."""
        return super().locateResponder(name) if name in self._answers else None

    def stringReceived(self, string: bytes) -> None:
        """Take a key or a value of a box, if the box does not grow too large."""
        if self._is_closed:
            return
        self._unfinished += len(string) + 2
        if self._unfinished > (LARGEST_BOX if self.is_known else STRANGER_BOX):
            self.drop("sent too large a box")
            return
        super().stringReceived(string)

    def ampBoxReceived(self, box: AmpBox) -> None:
        """Take a box, if not too many come."""
        self._unfinished = 0
        if not self._may_come():
            self.drop("sent too many boxes")
            return
        try:
            super().ampBoxReceived(box)
        except Exception:
            # Neither a command nor an answer to anything that was asked.
            self.drop("sent a box that means nothing")

    def dispatchCommand(self, box: AmpBox) -> Any:
        """Carry a command out; one that cannot be is the other end's fault, and needs no log."""
        return super().dispatchCommand(box).addErrback(self._not_carried_out)

    def _not_carried_out(self, failure: Failure) -> Failure:
        if failure.check(RemoteAmpError):
            return failure
        self.drop(f"{type(failure.value).__name__} in a command")
        return Failure(RemoteAmpError(UNKNOWN_ERROR_CODE, "not carried out"))

    def unhandledError(self, failure: Failure) -> None:
        """Hang up on whoever sent what a command does not expect, without a traceback."""
        self.drop(f"{type(failure.value).__name__} in what it sent")

    def _may_come(self) -> bool:
        now = time.monotonic()
        self._allowance = min(BOX_BURST, self._allowance + (now - self._counted_at) * BOX_RATE) - 1
        self._counted_at = now
        return self._allowance >= 0
