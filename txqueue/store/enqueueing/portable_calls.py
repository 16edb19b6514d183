"""Calls of stored functions in the style of any driver: enqueue work, and send signals."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

from attrs import frozen

from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import OPTIONS
from txqueue.model.foreign import text_of
from txqueue.model.job import job_number
from txqueue.model.results import check_signal_name, signal_text
from txqueue.model.work_item import WorkItem, is_work_type
from txqueue.store.enqueueing.calls import (
    ParamStyle,
    Statement,
    arranged,
    batches,
    call_statement,
    place,
)
from txqueue.store.enqueueing.encryption import encrypted, has_key
from txqueue.store.inquiries.inquiry import aanswer, answer
from txqueue.store.schema.files import checked_name

_JOBS: Final = "jobs"


@frozen
class Frame:
    """Statements around others, of which either all act or none."""

    opening: str
    closing: str
    undoing: Sequence[str]


SAVEPOINT: Final = Frame(
    "savepoint txqueue_enqueue",
    "release savepoint txqueue_enqueue",
    ("rollback to savepoint txqueue_enqueue", "release savepoint txqueue_enqueue"),
)
TRANSACTION: Final = Frame("begin", "commit", ("rollback",))


def many_statements(
    works: Iterable[WorkItem], options: Mapping[str, Any], schema: str, style: ParamStyle
) -> Iterator[Statement]:
    """Yield the statements that enqueue work items, each up to a thousand of them.

    Raises:
        InvalidWork: When a work item or an option is not valid.
        ConfigurationError: When the schema's name or the style is not valid.
    """
    try:
        sql = _enqueue_many(schema, style)
    except TypeError:
        sql = _enqueue_many.__wrapped__(schema, style)
    for text in batches(works, options):
        yield sql, arranged({_JOBS: text}, style)


def text_statement(sql: str, schema: str, style: ParamStyle, *texts: str) -> Statement:
    """Return a statement with texts as parameters.

    Args:
        sql: The statement, with ``%s`` for each parameter and ``{schema}`` for the schema's name.
        schema: The name of the schema.
        style: How the driver spells parameters.
        texts: The parameters.

    Raises:
        ConfigurationError: When the schema's name or the style is not valid.
    """
    named = {f"text_{number}": text for number, text in enumerate(texts, 1)}
    first, *others = sql.strip().replace("{schema}", checked_name(schema)).split("%s")
    places = [place(style, name, number) for number, name in enumerate(named, 1)]
    placed = first + "".join(map("".join, zip(places, others, strict=True)))
    return placed, arranged(named, style)


@lru_cache
def _enqueue_many(schema: str, style: ParamStyle) -> str:
    return f"select {checked_name(schema)}.enqueue_checked({place(style, _JOBS, 1)}::jsonb)"


T = TypeVar("T")
Exchange: TypeAlias = Generator[Statement, Any, T]

run, arun = answer, aanswer
"""Run an exchange: `arun` over a connection that does not block."""


Receiver: TypeAlias = int | tuple[type[WorkItem], str]
"""The job that a signal is for: its number, or its class and the unique key that it holds."""

SIGNAL_PART: Final = "signal"
"""The value of a signal, as encryption names it."""


@frozen
class Signal:
    """A signal to be sent.

    Attributes:
        of: The job that it is for.
        name: Its name.
        value: What the wait for it returns.
        key: Makes the call idempotent; None if each signal is another one.
    """

    of: Receiver
    name: str
    value: Any = None
    key: str | None = None


def signal_sent(signal: Signal, schema: str, style: ParamStyle) -> Exchange[bool]:
    """Send a signal; return whether it is new.

    A process with a key first asks for the type of the job if that is encrypted, unless its class
    is named.

    Raises:
        InvalidWork: When the signal is not valid; nothing is sent.
        KeyUnavailable: When its value must be encrypted, and this process has no key.
    """
    # Before the first statement, and before a savepoint around all of them.
    return _sending(signal, signal_statement(signal, schema, style), schema, style)


def _sending(
    signal: Signal, statement: Statement, schema: str, style: ParamStyle
) -> Exchange[bool]:
    sql, parameters = statement
    if signal.value is not None and not isinstance(signal.of, tuple) and has_key():
        about = {"job_id": str(job_number(signal.of)), "name": signal.name}
        work_type = yield call_statement(schema, "encrypted_type", about, style)
        if work_type is not None:
            sql, parameters = _statement(signal, schema, style, work_type)
    # As text, since a program's own codec may read a boolean otherwise.
    answer = yield f"{sql}::text", parameters
    return bool(answer == "true")


async def sent(signal: Signal, schema: str, query: Callable[..., Awaitable[Any]]) -> bool:
    """Send a signal by a function that runs a statement and returns its rows."""

    async def value(statement: Statement) -> Any:
        return (await query(*statement))[0][0]

    return await arun(signal_sent(signal, schema, "format"), value)


def signal_statement(signal: Signal, schema: str, style: ParamStyle) -> Statement:
    """Return the statement that sends a signal; its value is encrypted if its class says so.

    Raises:
        InvalidWork: When the signal is not valid.
        KeyUnavailable: When its value must be encrypted, and this process has no key.
        ConfigurationError: When the schema's name or the style is not valid.
    """
    cls: Any = signal.of[0] if isinstance(signal.of, tuple) and signal.of else None
    is_encrypted = _is_class(cls) and cls.encrypted
    return _statement(signal, schema, style, cls.work_type if is_encrypted else None)


def _statement(
    signal: Signal, schema: str, style: ParamStyle, encrypted_type: str | None
) -> Statement:
    function, arguments = _receiver(signal.of)
    check_signal_name(signal.name, signal.key)
    arguments["name"] = signal.name
    if signal.value is not None:
        text = signal_text(signal.name, signal.value)
        if encrypted_type is not None:
            text = encrypted_text(encrypted_type, json.loads(text))
        arguments["value"] = text
    if signal.key is not None:
        arguments["key"] = signal.key
    return call_statement(schema, function, arguments, style)


def encrypted_text(work_type: str, value: Any) -> str:
    """Return the value of a signal to a job of an encrypted type, as JSON text."""
    return json.dumps(encrypted(work_type, SIGNAL_PART, value))


def _receiver(of: Any) -> tuple[str, dict[str, str]]:
    """Return the stored function, and its arguments that name the job."""
    if not isinstance(of, tuple):
        return "signal", {"job_id": str(job_number(of))}
    if len(of) != 2 or not _is_class(of[0]):
        raise InvalidWork(
            f"{text_of(of)[:100]} names no job",
            "pass the number of the job, or its class and the unique key that it holds",
        )
    cls, unique = of
    return "signal_keyed", {
        "work_type": cls.work_type,
        "unique": str(OPTIONS["unique"].read("unique", unique)),
    }


def _is_class(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, WorkItem) and is_work_type(cls)
