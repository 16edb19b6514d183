"""Days and moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

__all__ = ["moment_of", "zoned"]


def moment_of(context: click.Context, parameter: click.Parameter, value: Any) -> datetime | None:
    """Read a day or a moment in ISO 8601, of UTC unless it says otherwise."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no day and no moment, as in 2026-11-22T13:00", context, parameter
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def zoned(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check a moment that is written down; without an offset each host would mean another."""
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
