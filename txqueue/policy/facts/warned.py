"""How warnings are given: as dictionaries, and a limited number of a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from txqueue.model.humanize import counted

__all__ = ["MOST_WARNED", "Row", "Warned", "listed"]

P = ParamSpec("P")
Row = Mapping[str, Any]
Warned = tuple[str, str, str, str]

MOST_WARNED = 20
"""How many warnings of a kind are given; one more says how many others there are."""


def listed(warn: Callable[P, Iterable[Warned]]) -> Callable[P, list[dict[str, str]]]:
    """Have a function return its warnings, all of a kind, as dictionaries.

    Args:
        warn: Yields ``kind, subject, what, remedy`` for each.
    """

    @wraps(warn)
    def few(*args: P.args, **options: P.kwargs) -> list[dict[str, str]]:
        all_warned = list(warn(*args, **options))
        first, left = all_warned[:MOST_WARNED], len(all_warned) - MOST_WARNED
        if left > 0:
            kind = first[-1][0]
            what = f"{counted(left, 'more warning')} of this kind: {kind.replace('_', ' ')}"
            first.append((kind, "", what, "as for those before"))
        return [
            dict(zip(("kind", "subject", "what", "remedy"), warning, strict=True))
            for warning in first
        ]

    return few
