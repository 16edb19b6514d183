"""Which statements the database refuses, because the role lacks a right."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

from txqueue.errors import NotPermitted

__all__ = ["MissingRights"]

FORGOTTEN_AFTER = 15.0
"""Seconds after which a refusal no longer counts, unless the statement is refused again."""


@define
class MissingRights:
    """The refused statements of a node, each until it succeeds.

    Services try refused statements again within five seconds; one that is not has become needless.

    Args:
        now: Returns the time by the monotonic clock.
    """

    _now: Callable[[], float] = time.monotonic
    _refused: dict[str, tuple[float, str]] = field(factory=dict, init=False)

    @contextmanager
    def needed_by(self, statement: str) -> Iterator[None]:
        """Note whether the statement that runs in this block is refused."""
        try:
            yield
        except NotPermitted as error:
            self._refused[statement] = (self._now(), error.what)
            raise
        self._refused.pop(statement, None)

    def refuses(self, statement: str) -> bool:
        """Tell whether this statement was refused when it was last run."""
        return statement in self._recent()

    @property
    def first(self) -> str | None:
        """What the server said to the statement that was refused first; None if none is."""
        return next(iter(self._recent().values()), None)

    def _recent(self) -> dict[str, str]:
        since = self._now() - FORGOTTEN_AFTER
        return {sql: said for sql, (at, said) in self._refused.items() if at > since}
