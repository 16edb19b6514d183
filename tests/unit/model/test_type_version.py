"""The versions of work types: equal for equal fields, in every process."""

from enum import Enum
from typing import Any, Literal

import pytest
from attrs import NOTHING, define, field, make_class
from hypothesis import given
from hypothesis import strategies as st

from txqueue import WorkItem
from txqueue.errors import UnreadablePayload
from txqueue.model.payload import decode, encode
from txqueue.model.work_item import type_version


def item(fields: dict[str, tuple[Any, ...]]) -> type[WorkItem]:
    """Define a class of one work type anew, as another version of an application does."""

    async def perform(self: object, job: object) -> None:
        """Do nothing."""

    body: dict[str, Any] = {"work_type": "version.kind", "perform": perform}
    body |= {"__module__": __name__}
    base = type("Kind", (WorkItem,), {**body, "__qualname__": "Kind"})
    made = {
        name: field(type=kind, default=default[0] if default else NOTHING)
        for name, (kind, *default) in fields.items()
    }
    return make_class("Kind", made, bases=(base,), class_body=body)


class Small(Enum):
    """An enumeration."""

    A = "a"


class Large(Enum):
    """The same with a member more."""

    A = "a"
    B = "b"


@define
class Part:
    """A nested class."""

    number: int


@define
class Tree:
    """A nested class that contains itself."""

    children: list["Tree"] = field(factory=list)


FIELDS: list[dict[str, tuple[Any, ...]]] = [
    {},
    {"a": (int,)},
    {"a": (int, 1)},
    {"b": (int,)},
    {"a": (str,)},
    {"a": (int | None,)},
    {"a": (list[int],)},
    {"a": (list[str],)},
    {"a": (Small,)},
    {"a": (Large,)},
    {"a": (dict[str, Large],)},
    {"a": (Part,)},
    {"a": (Tree,)},
    {"a": (Literal["x"],)},
    {"a": (Literal["x", "y"],)},
]


def test_versions_differ_where_payloads_may() -> None:
    """By names, types, defaults, members and nested fields; the same class has the same again."""
    versions = [type_version(item(fields)) for fields in FIELDS]
    assert len(set(versions)) == len(FIELDS)
    assert versions == [type_version(item(fields)) for fields in FIELDS]
    assert all(each.startswith("version.kind#") for each in versions)


VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 9),
    str: st.sampled_from(["", "a", "b"]),
    int | None: st.sampled_from([None, 1]),
    Small: st.sampled_from(["a"]),
    Large: st.sampled_from(["a", "b"]),
    list[int]: st.lists(st.integers(0, 9), max_size=2),
    list[Small]: st.lists(st.just("a"), max_size=1),
    list[Large]: st.lists(st.sampled_from(["a", "b"]), max_size=2),
    Part: st.fixed_dictionaries({"number": st.integers(0, 9)}),
}
"""Types of fields, and their values in payloads."""

versions = st.dictionaries(
    st.sampled_from("abc"),
    st.sampled_from(list(VALUES)).flatmap(lambda kind: st.sampled_from([(kind,), (kind, None)])),
    max_size=3,
)


@given(versions, versions, st.data())
def test_equal_versions_read_the_same_payloads(
    one: dict[str, tuple[Any, ...]], two: dict[str, tuple[Any, ...]], data: st.DataObject
) -> None:
    """So a node that passes over a job for its version could not have read it."""
    # Required fields come first, as attrs demands.
    one, two = (dict(sorted(each.items(), key=lambda own: len(own[1]))) for each in (one, two))
    payload = {
        name: data.draw(VALUES[kind])
        for name, (kind, *default) in one.items()
        if not default or data.draw(st.booleans())
    }
    first, second = item(one), item(two)
    decode(first, payload)
    try:
        decode(second, payload)
    except UnreadablePayload:
        assert type_version(first) != type_version(second)


def test_the_value_of_a_default_is_no_part_of_the_version() -> None:
    """A payload that leaves the field out is read by both."""
    one, two = ({"a": (int, number)} for number in (1, 2))
    assert type_version(item(one)) == type_version(item(two))


def test_an_annotation_that_cannot_be_resolved() -> None:
    """It is compared as text."""
    one, two = (item({"a": (name,)}) for name in ("Nowhere", "Elsewhere"))
    assert type_version(one) != type_version(two)


@define
class Plain(WorkItem):
    """Work with defaults, which its payload has."""

    work_type = "version.plain"
    a: int
    b: int = 2

    async def perform(self, job: object) -> None:
        """Do nothing."""


@define
class Brief(Plain):
    """Its payload leaves them out."""

    work_type = "version.brief"
    omit_defaults = True
    tags_of: list[str] = field(factory=list)


@pytest.mark.parametrize(
    ("work", "payload"),
    [
        (Plain(1), {"a": 1, "b": 2}),
        (Brief(1), {"a": 1}),
        (Brief(1, 2, []), {"a": 1}),
        (Brief(1, 3, ["x"]), {"a": 1, "b": 3, "tags_of": ["x"]}),
    ],
)
def test_payloads_without_defaults(work: WorkItem, payload: dict[str, Any]) -> None:
    """If the class asks for it; they are read back equal."""
    assert encode(work) == payload
    assert decode(type(work), payload) == work
