"""A query as a generator that yields statements and receives their rows, for any kind of caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar

from attrs import frozen

from txqueue.errors import TxqueueError

__all__ = ["Inquiry", "Question", "Rows", "aanswer", "answer"]

Rows = list[dict[str, Any]]
T = TypeVar("T")


@frozen
class Question:
    """A statement that only reads, and its parameters."""

    sql: str
    parameters: Sequence[object] = ()


Inquiry = Generator[Question, Rows, T]


def answer(inquiry: Inquiry[T], ask: Callable[[Question], Rows]) -> T:
    """Run the statements that an inquiry yields, one by one, and return its result."""
    try:
        question = next(inquiry)
        while True:
            try:
                rows = ask(question)
            except TxqueueError as error:
                question = inquiry.throw(error)
            else:
                question = inquiry.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


async def aanswer(inquiry: Inquiry[T], ask: Callable[[Question], Awaitable[Rows]]) -> T:
    """Run the statements that an inquiry yields over a connection that does not block."""
    try:
        question = next(inquiry)
        while True:
            try:
                rows = await ask(question)
            except TxqueueError as error:
                question = inquiry.throw(error)
            else:
                question = inquiry.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
