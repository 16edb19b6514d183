"""Reads days and moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

__all__ = ["moment_of", "zoned"]


def moment_of(context: click.Context, parameter: click.Parameter, value: Any) -> datetime | None:
    """Read a day or a moment in ISO 8601, in UTC unless it has an offset."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a day or a moment, such as 2026-11-22T13:00", context, parameter
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def zoned(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check a moment; it needs an offset, as hosts have different time zones."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a moment; write it like 2030-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise click.BadParameter(f"{value!r} has no time zone; add Z or an offset such as +02:00")
    return moment.isoformat()
