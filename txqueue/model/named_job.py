"""The text by which a notification names a job that was enqueued as assigned to a node."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["NamedJob", "named_job"]

_LARGEST = 2**63 - 1

# As enqueue() writes it; any role may send other texts.
_TEXT = re.compile(r"([0-7]) ([0-9]{1,19})")


class NamedJob(NamedTuple):
    """Where a job is: the lane of the assigned partition, and the number of its assignment."""

    lane: int
    assignment: int


def named_job(text: str) -> NamedJob | None:
    """Return the job that a notification names; None if the text is of another kind."""
    told = _TEXT.fullmatch(text)
    if told is None or int(told[2]) > _LARGEST:
        return None
    return NamedJob(int(told[1]), int(told[2]))
