"""The click types for lengths of time, as people type them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

__all__ = ["Length"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Length(click.ParamType[timedelta | float]):
    """A length of time, or a percentage where the option allows one."""

    name = "length"

    def __init__(self, *, takes_percent: bool = False) -> None:
        self._takes_percent = takes_percent

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | float:
        """Return a timedelta, or a fraction."""
        number = value.rstrip("%abcdefghijklmnopqrstuvwxyz ")
        unit = value[len(number) :].strip() or "s"
        try:
            if float(number) >= 0:
                if unit == "%" and self._takes_percent:
                    return float(number) / 100
                return timedelta(seconds=float(number) * _UNITS[unit])
        except (KeyError, ValueError, OverflowError):
            """Reject the value."""
        also = ", or 10% of the period" if self._takes_percent else ""
        self.fail(f"{value!r} is not a length of time; write 90s, 5min, 2h or 1d{also}", param, ctx)
