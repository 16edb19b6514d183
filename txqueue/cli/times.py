"""Options of commands whose values are lengths of time or moments."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any

import click

from txqueue.model.time_text import length_of, moment_of

__all__ = ["Length", "moment_option", "zoned"]


if TYPE_CHECKING:
    _Lengths = click.ParamType[timedelta | float]
else:
    # It takes no argument in click 8.1.
    _Lengths = click.ParamType


class Length(_Lengths):
    """A length of time, or a percentage where the option allows one."""

    name = "length"

    def __init__(self, *, takes_percent: bool = False) -> None:
        self._takes_percent = takes_percent

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | float:
        """Return the length as a timedelta, or the percentage as a fraction."""
        text = value.strip()
        try:
            if text.endswith("%") and self._takes_percent and 0 <= float(text[:-1]) < inf:
                return float(text[:-1]) / 100
            return length_of(text)
        except ValueError:
            also = ", or 10% of the period" if self._takes_percent else ""
            self.fail(
                f"{value!r} is not a length of time; write 90s, 5min, 2h or 1d{also}", param, ctx
            )


def moment_option(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | None:
    """Read a date, or a date and time, in ISO 8601, in UTC unless it has an offset."""
    if value is None:
        return None
    try:
        return moment_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def zoned(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check a date and time; it needs an offset, as hosts have different time zones."""
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
