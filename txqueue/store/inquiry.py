"""A query as a generator that yields statements and receives their rows, for any kind of caller."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from attrs import frozen

__all__ = ["Inquiry", "Question", "Rows"]

Rows = list[dict[str, Any]]
T = TypeVar("T")


@frozen
class Question:
    """A statement that only reads, and its parameters."""

    sql: str
    parameters: Sequence[object] = ()


Inquiry = Generator[Question, Rows, T]
