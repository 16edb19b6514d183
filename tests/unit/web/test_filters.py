"""The filters in a page's address, and the links that remove one."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from txqueue.web.filters import chips, chosen_filters
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
