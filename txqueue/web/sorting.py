"""The order of a table's rows, which a click on the head of a column chooses.

A page sorts the rows that it has read, of which each table has a bounded number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import meant, plain
from txqueue.web.messages import PageRequest

Row = Mapping[str, Any]
# The first click on other columns shows the largest values first.
_NAMES: Final = frozenset(
    {"queue", "work_type", "tenant", "name", "kind", "outcome", "next_due", "last_due"}
)


@frozen
class SortOrder:
    """An order.

    Attributes:
        heads: The labels of the columns.
        column: The column to sort by; empty to leave the rows as they are.
        is_falling: Whether the largest values come first.
    """

    heads: Mapping[str, str]
    column: str
    is_falling: bool

    @classmethod
    def asked(cls, request: PageRequest, heads: Mapping[str, str], usual: str = "") -> SortOrder:
        """Return the order that the field ``sort`` of an address names: ``failed, -failed``.

        Args:
            request: The request.
            heads: The labels of the columns.
            usual: The order of an address that names none.

        Raises:
            ConfigurationError: When the table has no such column.
        """
        text = request.asked("sort") or usual
        column = text.removeprefix("-")
        if column and column not in heads:
            remedy = meant(column, heads) or f"choose one of: {', '.join(heads)}"
            raise ConfigurationError(f"no column {plain(column)[:50]} can be sorted by", remedy)
        return cls(heads, column, is_falling=text.startswith("-"))

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows in this order; those without a value come last."""
        found = list(rows)
        if not self.column:
            return found
        known = [row for row in found if row.get(self.column) is not None]
        unknown = [row for row in found if row.get(self.column) is None]
        return [*sorted(known, key=self._value, reverse=self.is_falling), *unknown]

    def _value(self, row: Row) -> Any:
        value = row[self.column]
        return len(value) if isinstance(value, list) else value

    def after_click(self, column: str) -> str:
        """Return the field ``sort`` of the address to which the head of a column leads."""
        is_falling = not self.is_falling if column == self.column else column not in _NAMES
        return f"-{column}" if is_falling else column

    def is_text(self, column: str) -> bool:
        """Tell whether a column is aligned as texts are."""
        return column in _NAMES

    def direction(self, column: str) -> str:
        """Return how a column sorts the rows, for `aria-sort`; empty for not at all."""
        if column != self.column:
            return ""
        return "descending" if self.is_falling else "ascending"
