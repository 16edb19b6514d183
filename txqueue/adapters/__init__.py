"""Enqueue on the application's own connection, whatever its driver.

Each module here is for the driver or framework of its name, and needs no Twisted. Each sends its
statements in the caller's transaction and commits nothing. `statement` serves other drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from txqueue.adapters.calls import BlockingBatch, error_of
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.calls import ParamStyle, enqueue_call
from txqueue.store.enqueueing.portable_calls import Receiver, Signal, many_statements
from txqueue.store.enqueueing.portable_calls import signal_statement as statement_of

__all__ = [
    "BlockingBatch",
    "ParamStyle",
    "error_of",
    "signal_statement",
    "statement",
    "statements",
]


def statement(
    work: WorkItem,
    *,
    paramstyle: ParamStyle,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> tuple[str, Any]:
    """Return the statement that enqueues one work item, and its parameters, for any driver.

    Its result has one row with one value: the job's number. All parameters are texts.

    Args:
        work: An instance of an attrs subclass of `WorkItem`.
        paramstyle: How the driver spells parameters: ``"format"`` for ``%s``, ``"numeric_dollar"``
            for ``$1``, both with a tuple; ``"pyformat"`` for ``%(name)s``, ``"named"`` for
            ``:name``, both with a dictionary.
        schema: The name of txqueue's schema.
        options: The options of the job.

    Raises:
        InvalidWork: When the work or an option is not valid.
        ConfigurationError: When the paramstyle or the name of the schema is not valid.
    """
    return enqueue_call(schema, work, options, paramstyle)


def statements(
    works: Iterable[WorkItem],
    *,
    paramstyle: ParamStyle,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> Iterator[tuple[str, Any]]:
    """Yield the statements that enqueue many work items, a thousand each; see `statement`.

    The result of each has one row with one value: the array of the jobs' numbers, in order. For a
    batch, enqueue its callback with ``after=numbers, after_any_end=True``.
    """
    return many_statements(works, options, schema, paramstyle)


def signal_statement(
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    paramstyle: ParamStyle,
    key: str | None = None,
    schema: str = "txqueue",
) -> tuple[str, Any]:
    """Return the statement that sends a signal, and its parameters; see `statement`.

    Its result has one row with one value: whether the signal is new. The value is encrypted if the
    class of the job is named and is encrypted; for the number of such a job it is refused.

    Args:
        of: The number of the job, or its class and the unique key that it holds.
        name: The name of the signal.
        value: What `wait_for` of the job returns, as JSON has it: plain data or an attrs object.
        paramstyle: How the driver spells parameters.
        key: Makes the call idempotent: a second signal of this name and key changes nothing.
        schema: The name of txqueue's schema.

    Raises:
        InvalidWork: When the name, the value or the key is not valid.
        KeyUnavailable: When the value must be encrypted, and this process has no key.
        ConfigurationError: When the paramstyle or the name of the schema is not valid.
    """
    return statement_of(Signal(of, name, value, key), schema, paramstyle)
