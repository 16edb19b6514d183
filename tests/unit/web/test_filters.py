"""The filters and the order in a page's address, and the links that change them."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import pytest

from txqueue.errors import ConfigurationError
from txqueue.web.filters import SortOrder, chips, chosen_filters
from txqueue.web.messages import PageRequest, Role, Visitor

VISITOR = Visitor("ann", Role.VIEWER)


def asking(query: Mapping[str, Sequence[str]]) -> PageRequest:
    """Return a request for the list of jobs."""
    return PageRequest("/jobs", VISITOR, query=query)


def test_spaces_around_a_value_belong_to_it() -> None:
    """Another tag could have the same value without them."""
    request = asking({"tag": ["a= b ", " "]})
    assert chosen_filters(request)["tag"] == ["a= b "]
    assert request.address() == "?tag=a%3D+b+"


def test_each_active_filter_has_a_link_without_it() -> None:
    """The others stay; the list begins at its first page again."""
    request = asking({"tag": ["a=b", "c"], "state": ["failed"], "queue": ["q&r"], "after": ["9"]})
    found = {chip.text: parse_qs(chip.address.lstrip("?")) for chip in chips(request)}
    assert found == {
        "State: failed": {"tag": ["a=b", "c"], "queue": ["q&r"]},
        "Queue: q&r": {"tag": ["a=b", "c"], "state": ["failed"]},
        "Tag: a=b": {"tag": ["c"], "state": ["failed"], "queue": ["q&r"]},
        "Tag: c": {"tag": ["a=b"], "state": ["failed"], "queue": ["q&r"]},
    }


def test_a_state_has_the_name_that_the_list_shows() -> None:
    """Jobs that are assigned are called running."""
    [chip] = chips(asking({"state": ["assigned"]}))
    assert chip.text == "State: running"
    assert chosen_filters(asking({"state": ["running"]}))["state"] == "assigned"
    with pytest.raises(ConfigurationError, match="choose one of: waiting, ready, running, "):
        chosen_filters(asking({"state": ["x"]}))


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
