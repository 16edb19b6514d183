"""Keys declared on a class: what they may name, and what they come to."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import attrs
import pytest
from attrs import Factory, define, field

from txqueue import Key, Rate, WorkItem
from txqueue.errors import InvalidWork
from txqueue.model import work_item as work_module
from txqueue.model.payload import encode
from txqueue.model.work_item import known_work_types
from txqueue.node.settings import policy_row

Number = NewType("Number", int)


def _perform(self: object, job: object) -> None: ...


def _tenant(self: object) -> str:
    return "x"


@pytest.fixture(autouse=True)
def same_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the classes that a test defines."""
    monkeypatch.setattr(work_module, "_registry", dict(work_module._registry))


class Size(StrEnum):
    """Text."""

    SMALL = "s"


class Level(IntEnum):
    """Whole numbers."""

    TOP = 9


class Mixed(Enum):
    """Neither."""

    ONE = 1
    TWO = "two"


@define
class Order:
    """A part of a payload."""

    number: int = 5
    note: str | None = None


def made(template: str, name: str = "group", /, *, key: Any = Key, **fields: Any) -> Any:
    """A work item class with a key, and with fields of the given types, or types and defaults."""
    types = {each: kind[0] if isinstance(kind, tuple) else kind for each, kind in fields.items()}
    defaults = {each: kind[1] for each, kind in fields.items() if isinstance(kind, tuple)}
    body = {
        "__annotations__": types,
        "work_type": "keys.made",
        name: key(template),
        "perform": _perform,
        **defaults,
    }
    return define(type("Made", (WorkItem,), body))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (str, "ada", "ada"),
        (int, -7, "-7"),
        (bool, True, "true"),
        (date, date(2026, 2, 1), "2026-02-01"),
        (UUID, UUID(int=10), "00000000-0000-0000-0000-00000000000a"),
        (Size, Size.SMALL, "s"),
        (Level, Level.TOP, "9"),
        (Literal["a", "b"], "b", "b"),
        (Number, 3, "3"),
        (Annotated[int | None, "some"], 4, "4"),
    ],
)
def test_the_text_of_each_kind_of_member(kind: Any, value: object, text: str) -> None:
    """Braces take its place."""
    cls = made("of {{{member}}}.", member=kind)
    assert cls(value).group == f"of {{{text}}}."


def test_nested_members() -> None:
    """Dots lead into attrs classes; None on the way is no key."""
    cls = made("{order.number}/{order.note}", order=(Order | None, None))
    assert [cls(Order(3, "n")).group, cls(Order(3)).group, cls().group] == ["3/n", None, None]


@pytest.mark.parametrize(
    "kind",
    [
        *(float, Decimal, datetime, time, timedelta, bytes, list[str], dict[str, str], Any, Order),
        *(Mixed, Literal[1, "a"], int | str, Size | Level),
    ],
)
def test_members_without_one_text_are_refused_at_definition(kind: Any) -> None:
    """The same value may have several, or the database cannot read it."""
    with pytest.raises(InvalidWork, match=r"Made.unique: a key cannot be made of member, as its"):
        made("{member}", "unique", member=kind)
    assert "keys.made" not in [cls.work_type for cls in known_work_types()]


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{other}", "Made has no such field in its payload"),
        ("{member.part}", "it is not in a class with fields"),
        ("{order.other}", "Order has no such field in its payload"),
        ("{hidden}", "Made has no such field in its payload"),
        ("{lowered}", "the field has a converter, which the database cannot run"),
    ],
)
def test_members_that_no_payload_has_are_refused_at_definition(template: str, why: str) -> None:
    """The error says which, and why."""
    fields = {"member": str, "order": Order, "hidden": (int, field(init=False, default=1))}
    with pytest.raises(InvalidWork, match=why):
        made(template, **fields, lowered=(str, field(converter=str.lower, default="")))


@pytest.mark.parametrize(
    "template",
    ["", "{", "}", "{}", "{0}", "{a!r}", "{a:>3}", "{a[0]}", "{a.}", "{a b}", None, 7],
)
def test_templates_that_cannot_be_read(template: Any) -> None:
    """Each is refused as it is written."""
    with pytest.raises(InvalidWork, match="cannot be read"):
        Key(template)


@pytest.mark.parametrize("name", ["group", "tenant", "unique"])
@pytest.mark.parametrize("text", ["customer {customer}", "{customer.name}"])
def test_a_text_that_names_a_field_is_refused_at_definition(name: str, text: str) -> None:
    """It would be one key for all customers; braces around other words are text."""
    with pytest.raises(InvalidWork, match=rf"{name} '.*' is a text.*\{{customer\}}") as caught:
        made(text, name, key=str, customer=str)
    assert f"{name} = Key(...)" in caught.value.remedy
    assert made("{Customer} {customer", name, key=str, customer=str)


def test_types_that_are_defined_later_are_checked_at_first_use() -> None:
    """The annotation is text, and names nothing yet."""
    cls = made("{member}", member="Later")
    globals()["Later"] = float
    try:
        with pytest.raises(InvalidWork, match="a key cannot be made of member"):
            encode(cls(1.0))
    finally:
        del globals()["Later"]


def test_classes_without_slots_are_checked_at_first_use() -> None:
    """Attrs adds the fields to the class that is there."""
    body = {"__annotations__": {"member": float}, "group": Key("{member}")}
    cls: Any = define(slots=False)(
        type("Loose", (WorkItem,), {**body, "work_type": "keys.loose", "perform": _perform})
    )
    with pytest.raises(InvalidWork, match=r"Loose.group: a key cannot be made of member"):
        encode(cls(1.0))


def published(**body: Any) -> Any:
    """What a node publishes of the keys of a class."""
    body = {"work_type": "keys.published", "perform": _perform, **body}
    return policy_row(define(type("Published", (WorkItem,), body)))["policy"].get("keys")


def test_what_a_node_publishes() -> None:
    """Constants are keys as well; what only the class can compute is named without parts."""
    computed = property(_tenant)
    assert published() is None
    assert published(group=None) is None
    assert published(group="printer {1}") == {"group": ["printer {1}"]}
    assert published(tenant=computed) == {"tenant": None}
    assert published(unique=Key("a")) == {"unique": ["a"], "unique_mode": "keep"}
    assert published(encrypted=True, tenant=computed) is None
    a_field = {"__annotations__": {"tenant": str | None}, "tenant": None}
    member = {"path": [["tenant", None]], "kind": "text"}
    assert published(**a_field) == {"tenant": [member]}
    assert published(__annotations__={"tenant": Any}) == {"tenant": None}


def test_defaults_are_published_on_each_step() -> None:
    """Those that the class makes anew for each work item are not."""
    cls = made(
        "{order.number} {day} {of}",
        order=(Order, Order(8)),
        day=(date, date(2026, 1, 1)),
        of=(str, Factory(str)),
    )
    first, _, second, _, third = policy_row(cls)["policy"]["keys"]["group"]
    assert first == {"path": [["order", {"number": 8}], ["number", 5]], "kind": "integer"}
    assert second == {"path": [["day", "2026-01-01"]], "kind": "date"}
    assert third == {"path": [["of"]], "kind": "text"}


def test_a_key_is_shown_as_it_is_written() -> None:
    """On the class it is itself."""
    cls = made("user:{user}", user=int)
    assert repr(cls.group) == "Key('user:{user}')"
    assert attrs.asdict(cls(7)) == {"user": 7}


def test_a_rate_without_a_group_holds_for_the_type() -> None:
    """Its name is the group, in each subclass that has no other, and for clients of SQL."""

    class Paced(WorkItem, is_abstract=True):
        group_rate = Rate(2)

    class Plain(Paced):
        work_type = "keys.plain"
        perform = _perform

    @define
    class Own(Paced):
        work_type = "keys.own"
        group: str
        perform = _perform

    assert [Plain().group, Own("g").group] == ["keys.plain", "g"]
    keys = [policy_row(cls)["policy"]["keys"]["group"] for cls in (Plain, Own)]
    assert keys == [["keys.plain"], [{"path": [["group"]], "kind": "text"}]]
