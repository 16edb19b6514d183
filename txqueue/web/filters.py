"""The filters of jobs in a page's address, or in a form's fields of the same names; and the order
of a table's rows, which a click on the head of a column chooses.

A page sorts the rows that it has read, of which each table has a bounded number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import meant, plain
from txqueue.model.job import State
from txqueue.model.names_elsewhere import state_elsewhere
from txqueue.web.messages import REPEATED, PageRequest

USUAL: Mapping[str, str] = {
    "queue": "Queue",
    "work_type": "Work type",
    "tenant": "Tenant",
    "group": "Group",
}
"""The filters that the form always shows besides the state, and their labels."""

MORE: Mapping[str, tuple[str, str]] = {
    "node": ("Node", "mail-2"),
    "batch": ("Batch", "number of its callback"),
    "tag": ("Tag", "campaign=spring"),
    "payload": ("Payload", "order_id=42"),
    "error": ("Error", "timed out"),
    "waiting_for": ("Waiting for", "signal=approval"),
    "since": ("Enqueued since", "2h, or 2026-11-22"),
    "until": ("Enqueued before", "2026-11-22T13:00Z"),
    "updated_since": ("Changed since", "10min, or 2026-11-22"),
}
"""The other filters, and for each its label and an example."""

_LABELS = {"state": "State", **USUAL, **{name: label for name, (label, _) in MORE.items()}}
FILTERS = tuple(_LABELS)
"""The names of all filters."""


@frozen
class Chip:
    """An active filter.

    Attributes:
        text: What it filters by.
        address: The query of the page without it.
    """

    text: str
    address: str


def chosen_filters(request: PageRequest) -> dict[str, str | list[str] | None]:
    """Return all filters of jobs by name; one that is not given is None or an empty list.

    Raises:
        ConfigurationError: When there is no such state: an act must not ignore a filter.
    """
    filters: dict[str, Any] = {
        name: request.asked(name) or request.sent(name) for name in FILTERS if name not in REPEATED
    }
    if (state := filters["state"]) == _shown("state", State.ASSIGNED):
        filters["state"] = State.ASSIGNED.value
    elif state is not None and state not in set(State):
        choices = (_shown("state", each) for each in State)
        remedy = state_elsewhere(state) or f"choose one of: {', '.join(choices)}"
        raise ConfigurationError("jobs have no such state", remedy)
    return filters | {name: request.all_of(name) for name in REPEATED}


def filter_pairs(request: PageRequest) -> list[tuple[str, str]]:
    """Return the names and values of the filters that are given, one pair for each value."""
    return list(_pairs(chosen_filters(request)))


def chips(request: PageRequest) -> list[Chip]:
    """Return the active filters, each with the address of the page without it."""
    filters = chosen_filters(request)
    return [
        Chip(
            f"{_LABELS[name]}: {_shown(name, value)}",
            request.address(after=None, **{name: _without(filters[name], value)}),
        )
        for name, value in _pairs(filters)
    ]


def _shown(name: str, value: str) -> str:
    """Return a value as the pages name it."""
    return "running" if (name, value) == ("state", "assigned") else value


def _pairs(filters: Mapping[str, str | Sequence[str] | None]) -> Iterator[tuple[str, str]]:
    for name, value in filters.items():
        values = [value] if isinstance(value, str) else value or ()
        yield from ((name, item) for item in values)


def _without(selection: str | Sequence[str] | None, value: str) -> list[str]:
    """Return the other values of a filter that has several."""
    values = () if isinstance(selection, str) else selection or ()
    return [item for item in values if item != value]


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
