"""An application's own connection, of whichever driver, behind one interface."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from attrs import frozen

from txqueue.store.enqueueing.portable_calls import Parameters, ParamStyle

__all__ = ["ForeignConnection", "as_numbered", "foreign_connection"]

# Each has a function `foreign`, and the driver of its name.
_ADAPTERS: Final = ("psycopg2", "psycopg", "asyncpg", "sqlalchemy")
_PLACE: Final = re.compile("%[s%]")


@frozen
class ForeignConnection:
    """A connection of an application, as it was when it was first looked at.

    Attributes:
        style: How its driver spells parameters.
        value: Sends a statement; returns the only value of its result, None for no result.
        rows: Sends a statement with ``%s`` for each parameter; returns its rows.
        is_asynchronous: Whether both return awaitables.
        is_open: Whether a transaction was open.
        is_alone: Whether each statement is a transaction of its own.
        before_undo: Called before a failed transaction is rolled back to a savepoint.
    """

    style: ParamStyle
    value: Callable[[str, Parameters], Any]
    rows: Callable[[str, Sequence[object]], Any]
    is_asynchronous: bool
    is_open: bool
    is_alone: bool
    before_undo: Callable[[], None] = lambda: None


async def foreign_connection(connection: Any) -> ForeignConnection | None:
    """Return a connection or session of any driver that has an adapter; None for other objects.

    It waits for nothing unless the connection is asynchronous.
    """
    # A connection of a driver that is not imported cannot be there.
    for name in filter(sys.modules.__contains__, _ADAPTERS):
        adapter: Any = import_module(f"txqueue.adapters.{name}")
        found: ForeignConnection | None = adapter.foreign(connection)
        if found is None and hasattr(adapter, "aforeign"):
            found = await adapter.aforeign(connection)
        if found is not None:
            return found
    return None


def as_numbered(sql: str, parameters: Sequence[object]) -> str:
    """Return a statement with ``%s`` for parameters as one with ``$1``, ``$2`` and so on.

    Texts are sent as texts, whatever the statement casts them to.
    """
    numbered = enumerate(parameters, 1)

    def place(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        number, value = next(numbered)
        return f"cast(${number} as text)" if isinstance(value, str) else f"${number}"

    return _PLACE.sub(place, sql)
