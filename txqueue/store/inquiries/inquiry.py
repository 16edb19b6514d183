"""A query as a generator that yields statements and receives their rows, for any kind of caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar

from attrs import frozen

__all__ = ["Inquiry", "Question", "Rows", "aanswer", "answer"]

Rows = list[dict[str, Any]]
A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")


@frozen
class Question:
    """A statement that only reads, and its parameters."""

    sql: str
    parameters: Sequence[object] = ()


Inquiry = Generator[Question, Rows, T]


def answer(questions: Generator[Q, A, T], ask: Callable[[Q], A]) -> T:
    """Ask what a generator yields, one by one, and return its result; it gets errors, too."""
    try:
        question = next(questions)
        while True:
            try:
                found = ask(question)
            except BaseException as error:
                question = questions.throw(error)
            else:
                question = questions.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


async def aanswer(questions: Generator[Q, A, T], ask: Callable[[Q], Awaitable[A]]) -> T:
    """Do so over a connection that does not block.

    What the generator asks after an error cleans up: no cancellation interrupts it.
    """
    has_failed = False
    try:
        question = next(questions)
        while True:
            try:
                found = await (_unbroken(ask(question)) if has_failed else ask(question))
            except BaseException as error:
                has_failed = True
                question = questions.throw(error)
            else:
                question = questions.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


def _unbroken(asked: Awaitable[A]) -> Awaitable[A]:
    # Programs that block need not import asyncio.
    from txqueue.system.asyncio_tasks import unbroken

    return unbroken(asked)
