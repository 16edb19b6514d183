"""Reads a chunk: the text that the database made of the jobs assigned together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from attrs import frozen

__all__ = ["Unreadable", "read_chunk"]

_HEAD = re.compile(r'\[(\d+),"([^"]*)",(\d+),(\d+),')
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]]')


@frozen
class Unreadable:
    """Stands for a payload that PostgreSQL takes and Python does not read.

    Attributes:
        reason: What Python says.
    """

    reason: str


def read_chunk(text: str) -> list[list[Any]]:
    """Read all entries; one that Python does not read keeps none of the others from running.

    Args:
        text: ``[[job_id, work_type, attempt, weight, payload, options], ...]``.

    Returns:
        The entries.
    """
    try:
        entries: list[list[Any]] = json.loads(text)
    except (ValueError, RecursionError):
        return [_read(entry) for entry in _apart(text)]
    return entries


def _read(text: str) -> list[Any]:
    try:
        entry: list[Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        head = _HEAD.match(text)
        assert head is not None, "the database writes numbers and names that need no escape"
        job_id, work_type, attempt, weight = head.groups()
        reason = Unreadable(f"{type(error).__name__}: {error}")
        return [int(job_id), work_type, int(attempt), int(weight), reason, None]
    return entry


def _apart(text: str) -> Iterator[str]:
    """Cut an array of arrays into its elements by their brackets."""
    depth = begin = 0
    for mark in _MARK.finditer(text):
        if mark[0] == "[":
            depth += 1
            if depth == 2:
                begin = mark.start()
        elif mark[0] == "]":
            if depth == 2:
                yield text[begin : mark.end()]
            depth -= 1
