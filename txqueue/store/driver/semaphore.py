"""A semaphore whose waiters do not nest."""

from __future__ import annotations

from twisted.internet.defer import DeferredSemaphore

__all__ = ["Semaphore"]


class Semaphore(DeferredSemaphore):
    """Gives callers their turn one after the other, and never one inside of another.

    A caller may end its turn without having waited for the database. If the next one began within
    that, the stack would be full after some dozens, and the others would never get theirs.
    """

    _ended = 0
    _is_ending = False

    def take_at_once(self) -> bool:
        """Take a turn if no caller waits for one; return whether it is taken."""
        if self.tokens:
            self.tokens -= 1
            return True
        return False

    def release(self) -> None:
        """End a turn; if another one is just being ended, after that."""
        self._ended += 1
        if self._is_ending:
            return
        self._is_ending = True
        try:
            while self._ended:
                self._ended -= 1
                super().release()
        finally:
            self._is_ending = False
