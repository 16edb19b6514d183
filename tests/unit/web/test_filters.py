"""The filters in a page's address, and the links that remove one."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

import pytest

from txqueue.errors import ConfigurationError
from txqueue.web.filters import chips, chosen_filters, filter_pairs
from txqueue.web.messages import PageRequest, Role, Visitor

VISITOR = Visitor("ann", Role.VIEWER)


def asking(query: Mapping[str, Sequence[str]]) -> PageRequest:
    """Return a request for the list of jobs."""
    return PageRequest("/jobs", VISITOR, query=query)


def test_each_filter_has_a_value_or_is_absent() -> None:
    """Empty fields of the form are no filters; those that repeat are lists."""
    query = {"queue": [" mail "], "state": [""], "error": [""], "tag": ["a=b", "", "c"]}
    chosen = chosen_filters(asking(query))
    assert (chosen["queue"], chosen["state"], chosen["error"]) == ("mail", None, None)
    assert (chosen["tag"], chosen["payload"]) == (["a=b", "c"], [])


def test_an_unknown_state_is_refused() -> None:
    """An act on all that match would otherwise change jobs in all states."""
    with pytest.raises(ConfigurationError, match="no such state"):
        chosen_filters(asking({"state": ["odd"]}))


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


def test_a_form_has_the_same_filters() -> None:
    """One field for each value."""
    query = {"tag": ["a=b", "c"], "state": ["failed"], "error": ["50%"]}
    pairs = [("state", "failed"), ("error", "50%"), ("tag", "a=b"), ("tag", "c")]
    assert filter_pairs(asking(query)) == pairs
    form = {name: [value for each, value in pairs if each == name] for name, _ in pairs}
    assert filter_pairs(PageRequest("/act/jobs", VISITOR, form=form)) == pairs


@pytest.mark.parametrize("query", [{}, {"tag": [""]}, {"after": ["7"]}])
def test_without_filters_there_are_no_links(query: Mapping[str, Sequence[str]]) -> None:
    """Nor with empty fields."""
    assert chips(asking(query)) == []


def test_a_state_has_the_name_that_the_list_shows() -> None:
    """Jobs that are assigned are called running."""
    [chip] = chips(asking({"state": ["assigned"]}))
    assert chip.text == "State: running"
