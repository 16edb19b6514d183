"""The rows of several questions in one result, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

PART: Final = "txqueue part "
"""How the name of the column begins that stands before the columns of a question."""
PLACE: Final = "txqueue place"
"""The name of the first column then: the number of the row."""


def nested(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row as a dictionary by column name; of several questions, one for each of them."""
    starts = [place for place, name in enumerate(names) if name.startswith(PART)]
    if not starts:
        return dict(zip(names, row, strict=True))
    found: dict[str, Any] = {PLACE: row[0]}
    for start, end in zip(starts, [*starts[1:], len(names)], strict=True):
        columns = zip(names[start + 1 : end], row[start + 1 : end], strict=True)
        found[names[start]] = dict(columns) if row[start] else None
    return found
