"""The order of a table's rows, as an address names it."""

from typing import Any

import pytest

from txqueue.errors import ConfigurationError
from txqueue.web.filters import SortOrder
from txqueue.web.messages import PageRequest, Role, Visitor

HEADS = {"queue": "Queue", "ready": "Ready"}
ROWS: list[dict[str, Any]] = [
    {"queue": "b", "ready": 2},
    {"queue": "a", "ready": None},
    {"queue": "c", "ready": 5},
]


def asked(sort: str) -> SortOrder:
    """Return the order that an address names."""
    request = PageRequest("/", Visitor("ann", Role.VIEWER), query={"sort": [sort]})
    return SortOrder.asked(request, HEADS)


@pytest.mark.parametrize(
    ("sort", "queues"), [("", "bac"), ("queue", "abc"), ("ready", "bca"), ("-ready", "cba")]
)
def test_rows_are_sorted_by_a_column(sort: str, queues: str) -> None:
    """A row without a value comes last, in either direction."""
    assert "".join(str(row["queue"]) for row in asked(sort).rows(ROWS)) == queues


def test_a_click_sorts_by_the_largest_or_the_first_name_and_a_second_one_turns_it_round() -> None:
    """The head of the column tells the direction."""
    assert [asked("").after_click(column) for column in HEADS] == ["queue", "-ready"]
    assert (asked("-ready").after_click("ready"), asked("-ready").direction("ready")) == (
        "ready",
        "descending",
    )


def test_an_unknown_column_is_refused_with_the_nearest_one() -> None:
    """As an unknown filter is."""
    with pytest.raises(ConfigurationError, match="did you mean ready"):
        asked("redy")
