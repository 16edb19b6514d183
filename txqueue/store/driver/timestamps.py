"""Reads timestamps that Python cannot represent, for tools that display stored data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import psycopg2
from psycopg2.extensions import PYDATETIMETZ, new_type, register_type

__all__ = ["EARLIEST", "LATEST", "read_any_moment"]

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)

_TIMESTAMPTZ_OID: Final = 1184


def read_any_moment(driver: Any) -> None:
    """Make a connection read a timestamp beyond Python's range as the nearest one within it."""
    register_type(_TIMESTAMPTZ, driver)


def _cast(text: Any, cursor: Any) -> datetime | None:
    try:
        moment: datetime | None = PYDATETIMETZ(text, cursor)
    except (ValueError, OverflowError, psycopg2.Error):
        return EARLIEST if text.endswith("BC") or text == "-infinity" else LATEST
    if moment is not None and moment.tzinfo is None:
        # Infinity has no time zone, so it could not be compared.
        return moment.replace(tzinfo=UTC)
    return moment


_TIMESTAMPTZ: Final = new_type((_TIMESTAMPTZ_OID,), "TIMESTAMPTZ", _cast)
