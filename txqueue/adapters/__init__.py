"""Enqueue on the application's own connection, whatever its driver.

Each module here is for the driver or framework of its name, and needs no Twisted. Each sends its
statements in the caller's transaction and commits nothing. `statement` serves other drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from txqueue.adapters.batches import BlockingBatch
from txqueue.adapters.driver_errors import error_of
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.portable_calls import (
    ParamStyle,
    many_statements,
    one_statement,
)

__all__ = ["BlockingBatch", "ParamStyle", "error_of", "statement", "statements"]


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
    return one_statement(work, options, schema, paramstyle)


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
