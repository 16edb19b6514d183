"""Decides, without I/O, when a master looks for jobs whose transactions sent no notification."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["Stragglers", "turn_length"]

# Milliseconds of a turn to notify: so many commits, within bounds; the last while none was timed.
COMMITS, SHORTEST_TURN, LONGEST_TURN, UNTIMED_TURN = 8, 10, 250, 100
# A look follows after a commit's time, and then after this part of the time that the youngest of
# the transactions has been open. Seconds: a commit that was not timed, and the least.
PART, UNTIMED, LEAST = 8, 0.005, 0.001


class Stragglers:
    """The open transactions that may have enqueued jobs of which no notification tells.

    Such a transaction has written its job before it found that all masters were awake, or that
    another transaction was about to notify them. So a claim that began after the masters counted as
    asleep, or after that notification, sees the job, or the transaction among the open ones.
    """

    def __init__(self) -> None:
        # Since when each has been open, as far as is known.
        self._since: dict[int, float] = {}
        # Whether enqueues notify this master, and whether there is a reason to look since then.
        self._is_armed = False
        self._has_news = True

    def armed(self) -> None:
        """Note that the master counts as asleep now, after the last claim."""
        self._is_armed = True

    def disarmed(self) -> None:
        """Note that the master counts as awake now: a claim follows, whatever is open."""
        self._is_armed, self._has_news = False, True

    def claimed(self, begun: Collection[int], now: float, *, found: bool) -> None:
        """Note a claim.

        Args:
            begun: The transactions that were open when it began.
            now: The time.
            found: Whether it found jobs, as after a notification.
        """
        has_news = self._is_armed and (found or self._has_news)
        self._since = {
            number: self._since.get(number, now)
            for number in begun
            if has_news or number in self._since
        }
        self._has_news = self._has_news and not has_news

    @property
    def awaited(self) -> Collection[int]:
        """The transactions until whose end the master looks."""
        return self._since.keys()

    def pause(self, now: float, commit_time: float | None) -> float | None:
        """Return the seconds until the next look; None if none is due for these transactions."""
        if not self._since and not self._has_news:
            return None
        youngest = now - max(self._since.values(), default=now)
        return max(LEAST, UNTIMED if commit_time is None else commit_time, youngest / PART)


def turn_length(commit_time: float | None) -> int:
    """Return the milliseconds for which a transaction may keep the turn to notify."""
    if commit_time is None:
        return UNTIMED_TURN
    return min(max(SHORTEST_TURN, round(1000 * COMMITS * commit_time)), LONGEST_TURN)
