"""Inquiries: queries as generators that yield statements and receive their rows, for any kind of
caller; those that every caller begins with; several in one round trip.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar

from attrs import frozen

from txqueue.errors import SchemaMismatch
from txqueue.store.driver.side_by_side import PART, PLACE
from txqueue.store.schema.files import FIND, SchemaVersion, check_version

Rows = list[dict[str, Any]]
A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")


@frozen
class Question:
    """A statement that only reads, and its parameters; a node prepares frequent ones."""

    sql: str
    parameters: Sequence[object] = ()
    is_frequent: bool = False


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
    from txqueue.system.clock import unbroken

    return unbroken(asked)


def ensure_version(schema: str) -> Inquiry[None]:
    """Check that this code can work with the schema.

    Raises:
        SchemaMismatch: When the schema is missing, older, or too new.
    """
    try:
        [row] = yield Question(FIND.format(schema=schema))
    except SchemaMismatch:
        # There is no such table.
        check_version(None, schema)
    else:
        check_version(SchemaVersion(row["number"], row["serves"]), schema)


def together(*inquiries: Inquiry[Any]) -> Inquiry[tuple[Any, ...]]:
    """Run inquiries side by side: the first questions of all are one statement, and so on.

    The statement's time limit is that of all of them together, so what may take long is better
    asked alone. A question must be one statement without settings before it.

    Returns:
        The results, in the order of the inquiries.
    """
    results: dict[int, Any] = {}
    answers: Iterable[tuple[int, Rows | None]] = [(place, None) for place in range(len(inquiries))]
    while asked := _questions(inquiries, answers, results):
        rows = yield _joined(list(asked.values()))
        answers = zip(asked, _parts(rows, len(asked)), strict=True)
    return tuple(results[place] for place in range(len(inquiries)))


def _questions(
    inquiries: Sequence[Inquiry[Any]],
    answers: Iterable[tuple[int, Rows | None]],
    results: dict[int, Any],
) -> dict[int, Question]:
    """Pass answers on and return the next questions, by place; note the results of the others."""
    asked: dict[int, Question] = {}
    for place, rows in answers:
        try:
            # A generator begins with None.
            asked[place] = inquiries[place].send(rows)  # type: ignore[arg-type]
        except StopIteration as end:
            results[place] = end.value
    return asked


def ask(sql: str, parameters: Sequence[object] = ()) -> Inquiry[Rows]:
    """Ask the question of a statement and its parameters."""
    return (yield Question(sql, parameters))


def _joined(questions: Sequence[Question]) -> Question:
    """Return one statement: the rows of all questions side by side, by their numbers.

    Drivers return the result of only one statement of a message. Side by side, all columns keep
    their types; the text of the names says where the columns of a question begin.
    """
    parts = [
        f'(select row_number() over () as "{PLACE}", true as "{PART}{number}", its.*'
        f" from ({question.sql}) as its) as part{number}"
        for number, question in enumerate(questions)
    ]
    sources = " full join ".join(
        part if number == 0 else f'{part} using ("{PLACE}")' for number, part in enumerate(parts)
    )
    parameters = [value for question in questions for value in question.parameters]
    return Question(f"select * from {sources}", parameters)


def _parts(rows: Rows, count: int) -> list[Rows]:
    ordered = sorted(rows, key=lambda row: row[PLACE])
    return [
        [row[part] for row in ordered if row[part] is not None]
        for part in (f"{PART}{number}" for number in range(count))
    ]
