"""Tags of jobs: what is accepted, what is refused, and how a handler reads them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.errors import InvalidWork
from txqueue.model.job_filters import checked_tags, tags_of

NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,50}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200)
TAGS = st.dictionaries(NAMES, VALUES, max_size=10)


@given(TAGS)
def test_valid_tags_stay_as_they_are(tags: dict[str, str]) -> None:
    """The dictionary is a copy."""
    checked = checked_tags(tags)
    assert checked == tags
    assert checked is not tags
    assert tags_of({"tags": checked, "timeout": 3}) == tags


@given(st.dictionaries(st.text(max_size=60), st.text(max_size=210), max_size=12))
def test_all_others_are_refused(tags: dict[str, str]) -> None:
    """With an error that says why, and how to correct it."""
    is_valid = len(tags) <= 10 and all(
        re.fullmatch("[A-Za-z0-9_.-]{1,50}", name)
        and len(value) <= 200
        and not re.search("[\0-\x1f\x7f-\x9f\ud800-\udfff]", value)
        for name, value in tags.items()
    )
    if is_valid:
        assert checked_tags(tags) == tags
    else:
        with pytest.raises(InvalidWork) as caught:
            checked_tags(tags)
        assert caught.value.remedy


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ([("a", "b")], "tags are no mapping but a list"),
        ("a=b", "tags are no mapping but a str"),
        ({str(number): "" for number in range(11)}, "11 tags are too many"),
        ({"": "x"}, "'' is not the name of a tag"),
        ({"a b": "x"}, "'a b' is not the name of a tag"),
        ({"a\n": "x"}, "is not the name of a tag"),
        ({"ä": "x"}, "is not the name of a tag"),
        ({7: "x"}, "'7' is not the name of a tag"),
        ({"a": 7}, "the tag a is no text but a int"),
        ({"a": None}, "the tag a is no text"),
        ({"a": "x" * 201}, "201 characters, more than 200"),
        ({"a": "x\0"}, "control character"),
        ({"a": "x\u0085"}, "control character"),
        ({"a": "\ud800"}, "control character"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(tags: Any, said: str) -> None:
    """By name."""
    with pytest.raises(InvalidWork) as caught:
        checked_tags(tags)
    assert said in caught.value.what


@pytest.mark.parametrize("options", [None, [], {}, {"tags": None}, {"tags": ["a"]}, {"tags": "a"}])
def test_a_job_without_tags_has_an_empty_mapping(options: Any) -> None:
    """Whatever its options are."""
    assert dict(tags_of(options)) == {}


def test_tags_cannot_be_changed() -> None:
    """A handler reads them only."""
    tags: Any = tags_of({"tags": {"a": "b", "c": 7}})
    assert tags == {"a": "b"}
    with pytest.raises(TypeError):
        tags["a"] = "c"
