"""Enqueueing as an exchange: a generator that yields statements and receives their answers.

`run` and `arun` send them over the caller's own connection. Nothing else here differs between a
driver that blocks and one that does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

from attrs import frozen

from txqueue.adapters.driver_errors import error_of
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.exchange import Exchange, arun, run
from txqueue.store.enqueueing.portable_calls import (
    SAVEPOINT,
    TRANSACTION,
    Frame,
    Parameters,
    ParamStyle,
    Statement,
    many_statements,
    one_statement,
)
from txqueue.store.enqueueing.signals import Signal, signal_sent
from txqueue.tracing.choice import sending

__all__ = [
    "Exchange",
    "Signal",
    "Terms",
    "arun",
    "asend_one",
    "many",
    "one",
    "run",
    "send_one",
    "signalled",
]

T = TypeVar("T")


@frozen
class Terms:
    """How a caller's connection is used.

    Attributes:
        style: How its driver spells parameters.
        is_alone: Tells whether each statement is a transaction of its own.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the caller's transaction as it was.
    """

    style: ParamStyle
    is_alone: Callable[[], bool]
    schema: str
    savepoint: bool

    def frame(self, *, is_one: bool) -> Frame | None:
        """Return the frame of one or several statements; None if they need none."""
        if is_one and not self.savepoint:
            return None
        if self.is_alone():
            return None if is_one else TRANSACTION
        return SAVEPOINT


def send_one(
    send: Callable[[str, Parameters], Any],
    work: WorkItem,
    options: Mapping[str, Any],
    schema: str,
    style: ParamStyle,
) -> int:
    """Enqueue one work item without a savepoint: what `run(one(...))` does, in half its time."""
    with sending(work, options) as call:
        sql, parameters = one_statement(work, call.options, schema, style)
        try:
            job_id = int(send(sql, parameters))
        except Exception as error:
            _raise_refusal(error)
            raise
        call.enqueued(job_id)
    return job_id


async def asend_one(
    send: Callable[[str, Parameters], Awaitable[Any]],
    work: WorkItem,
    options: Mapping[str, Any],
    schema: str,
    style: ParamStyle,
) -> int:
    """Do so over a connection that does not block."""
    with sending(work, options) as call:
        sql, parameters = one_statement(work, call.options, schema, style)
        try:
            job_id = int(await send(sql, parameters))
        except Exception as error:
            _raise_refusal(error)
            raise
        call.enqueued(job_id)
    return job_id


def _raise_refusal(error: Exception) -> None:
    refusal = error_of(error)
    if refusal is not None:
        raise refusal from error


def one(work: WorkItem, options: Mapping[str, Any], terms: Terms) -> Exchange[int]:
    """Enqueue one work item; return the job's number."""
    with sending(work, options) as call:
        statement = one_statement(work, call.options, terms.schema, terms.style)
        job_id = int((yield from _framed(_asked(statement), terms.frame(is_one=True))))
        call.enqueued(job_id)
    return job_id


def many(
    works: Iterable[WorkItem], options: Mapping[str, Any], terms: Terms
) -> Exchange[list[int]]:
    """Enqueue work items, all or none of them; return the numbers of the jobs."""
    remaining = iter(works)
    first = next(remaining, None)
    if first is None:
        return []
    with sending(first, options) as call:
        watched = call.watch(chain([first], remaining))
        statements = many_statements(watched, call.options, terms.schema, terms.style)
        ids = yield from _several(statements, terms)
        call.enqueued(*ids)
    return ids


def signalled(signal: Signal, terms: Terms) -> Exchange[bool]:
    """Send a signal; return whether it is new."""
    sending = signal_sent(signal, terms.schema, terms.style)
    try:
        return (yield from _framed(sending, terms.frame(is_one=True)))
    except Exception as error:
        _raise_refusal(error)
        raise


def _several(statements: Iterator[Statement], terms: Terms) -> Exchange[list[int]]:
    # All of one statement is checked before it is sent.
    first, second = next(statements), next(statements, None)
    ahead = [first] if second is None else [first, second]
    frame = terms.frame(is_one=second is None)
    return (yield from _framed(_each(chain(ahead, statements)), frame))


def _each(statements: Iterable[Statement]) -> Exchange[list[int]]:
    ids: list[int] = []
    for sql, parameters in statements:
        # As text: asyncpg asks the server what an array is, in four round trips.
        text = yield from _asked((f"{sql}::text", parameters))
        ids += map(int, text.strip("{}").split(","))
    return ids


def _framed(exchange: Exchange[T], frame: Frame | None) -> Exchange[T]:
    if frame is None:
        return (yield from exchange)
    yield from _asked((frame.opening, ()))
    try:
        answer = yield from exchange
    except GeneratorExit:
        raise
    except BaseException:
        for sql in frame.undoing:
            # The first error is the one to raise, also if the connection is lost.
            with suppress(Exception):
                yield sql, ()
        raise
    yield from _asked((frame.closing, ()))
    return answer


def _asked(statement: Statement) -> Exchange[Any]:
    try:
        return (yield statement)
    except Exception as error:
        _raise_refusal(error)
        raise
