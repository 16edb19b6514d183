"""Which statements the database refuses, for want of a right, of time or of what else they need."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

from txqueue.model.sqlstates import INSUFFICIENT_PRIVILEGE, outlasts_retries
from txqueue.store.driver.errors import is_too_slow, sent_by_server

__all__ = ["RefusedStatements", "ServerAnswer"]

FORGOTTEN_AFTER = 15.0
"""Seconds after which a refusal no longer counts, unless the statement is refused again."""
COUNTS_AFTER = 2.0
"""Seconds for which a statement must fail, as one row may be the cause of a single failure; the
lack of a right counts at once.
"""


@frozen
class ServerAnswer:
    """What the server answered to a statement.

    Attributes:
        said: Its message.
        sqlstate: Its code.
    """

    said: str
    sqlstate: str


@define
class _Failing:
    """A statement that fails again and again."""

    since: float
    last: float
    refusal: ServerAnswer


@define
class RefusedStatements:
    """The refused statements of a node, each until it succeeds.

    Services try refused statements again within five seconds; one that is not has become needless.

    Args:
        now: Returns the time by the monotonic clock.
    """

    _now: Callable[[], float] = time.monotonic
    _failing: dict[str, _Failing] = field(factory=dict, init=False)

    @contextmanager
    def noted(self, statement: str) -> Iterator[None]:
        """Note whether the statement that runs in this block is refused."""
        try:
            yield
        except Exception as error:
            answer = sent_by_server(error)
            if answer is not None and (outlasts_retries(answer[0]) or is_too_slow(error)):
                self._failed(statement, ServerAnswer(answer[1], answer[0]))
            raise
        self._failing.pop(statement, None)

    def refuses(self, statement: str) -> bool:
        """Tell whether this statement was refused when it was last run."""
        failing = self._failing.get(statement)
        return failing is not None and self._counts(failing)

    @property
    def first(self) -> ServerAnswer | None:
        """What the server answered to the statement that was refused first; None if none is."""
        refused = (each.refusal for each in self._failing.values() if self._counts(each))
        return next(refused, None)

    def _failed(self, statement: str, refusal: ServerAnswer) -> None:
        now = self._now()
        failing = self._failing.get(statement)
        if failing is None or self._is_old(failing):
            self._failing[statement] = _Failing(now, now, refusal)
        else:
            failing.last, failing.refusal = now, refusal

    def _is_old(self, failing: _Failing) -> bool:
        return failing.last <= self._now() - FORGOTTEN_AFTER

    def _counts(self, failing: _Failing) -> bool:
        lacks_right = failing.refusal.sqlstate == INSUFFICIENT_PRIVILEGE
        lasts = lacks_right or failing.last - failing.since >= COUNTS_AFTER
        return lasts and not self._is_old(failing)
