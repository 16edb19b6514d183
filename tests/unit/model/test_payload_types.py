"""Over generated types: what enqueue accepts, the worker reads back equal, and of the same type."""

import enum
import json
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    Union,
    Unpack,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, PydanticUserError, computed_field, create_model
from typing_extensions import TypedDict

from txqueue import Key, WorkItem, WorksetItem, task
from txqueue.errors import InvalidWork
from txqueue.model.keys import parts_of
from txqueue.model.payload import decode, encode
from txqueue.model.payload_schema import payload_schema
from txqueue.model.schema_check import find_misfit
from txqueue.model.work_item import type_version
from txqueue.model.workset_item import columns_of, decimals_of
from txqueue.store.enqueueing.calls import enqueue_call

SECRET = "s3cret"


class Size(enum.StrEnum):
    """An enum of text."""

    SMALL = "s"
    LARGE = "l"


class Level(enum.IntEnum):
    """An enum of numbers, of which one equals True."""

    LOW = 1
    HIGH = 2


class Old(str, enum.Enum):  # noqa: UP042  # what the test is about
    """An enum of text as it was written before StrEnum."""

    TRUE = "true"


class Mixed(enum.Enum):
    """An enum whose values are alike."""

    NUMBER = 1
    TEXT = "1"
    RATIO = 1.5
    NOTHING = None


class Rights(enum.IntFlag):
    """Flags, which combine."""

    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    """A tuple with names."""

    number: int
    text: str


@define
class Leaf:
    """An object with an optional part of its own kind."""

    name: str
    size: Size = Size.SMALL
    below: "list[Leaf]" = field(factory=list)


@dataclass
class Order:
    """A dataclass with one of its own kind."""

    number: int
    sent: datetime | None = None
    parent: "Order | None" = None


class Part(TypedDict):
    """A TypedDict with a key that may be absent."""

    name: str
    orders: NotRequired[list[Order]]


class Tail(TypedDict, total=False):
    """A TypedDict with a mark as text, as future annotations are."""

    sent: "Required[date]"
    tag: UUID


class Line(Tail):
    """A TypedDict with another one of these, below one that is not total."""

    sku: UUID
    note: "NotRequired[UUID]"


class Invoice(BaseModel):
    """A model of pydantic with another name for a field, and a value that it computes."""

    total: Decimal
    due: date = Field(alias="dueDate")
    lines: dict[str, Level] = {}
    order: Order | None = None

    @computed_field
    def doubled(self) -> Decimal:
        """Return what no payload has."""
        return self.total * 2


UserId = NewType("UserId", int)

Kind = tuple[Any, st.SearchStrategy[Any]]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
numbers = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(
    min_value=datetime(1900, 1, 1),
    timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30))]),
)
times = st.times(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-3))]))
leaves: st.SearchStrategy[Leaf] = st.deferred(
    lambda: st.builds(Leaf, texts, st.sampled_from(Size), st.lists(leaves, max_size=1))
)
orders = st.builds(
    Order, st.integers(), st.none() | moments, st.builds(Order, st.integers()) | st.none()
)
parts = st.fixed_dictionaries({"name": texts}, optional={"orders": st.lists(orders, max_size=1)})
lines = st.fixed_dictionaries(
    {"sent": st.dates(), "sku": st.uuids()}, optional={"tag": st.uuids(), "note": st.uuids()}
)
invoices = st.builds(
    Invoice,
    total=st.decimals(allow_nan=False, allow_infinity=False),
    dueDate=st.dates(),
    lines=st.dictionaries(texts, st.sampled_from(Level), max_size=1),
    order=st.none() | orders,
)
# Floats from 1e16 come back from the database as ints, which not all types read as floats.
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.floats(-1e15, 1e15),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
KEYS: list[Kind] = [
    (str, texts),
    (int, st.integers()),
    (bool, st.booleans()),
    (float, numbers),
    (Size, st.sampled_from(Size)),
    (Level, st.sampled_from(Level)),
    (Old, st.sampled_from(Old)),
    (UUID, st.uuids()),
    (date, st.dates()),
    (time, times),
    (timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (UserId, st.integers()),
    (Literal[1, 2], st.sampled_from([1, 2])),
    (Annotated[int, "a number"], st.integers()),
]
SCALARS: list[Kind] = [
    *KEYS,
    (datetime, moments),
    (bytes, st.binary(max_size=4)),
    (Mixed, st.sampled_from(Mixed)),
    (Rights, st.sampled_from([Rights.READ, Rights.READ | Rights.WRITE])),
    (Literal["a", 1, Level.HIGH], st.sampled_from(["a", 1, Level.HIGH])),
    (Pair, st.builds(Pair, st.integers(), texts)),
    (Leaf, leaves),
    (Order, orders),
    (Part, parts),
    (Line, lines),
    (Invoice, invoices),
    (int | str, st.integers() | texts),
    (Invoice | Order | Part | None, st.none() | invoices | orders | parts),
    (Any, plain),
    (dict, st.dictionaries(texts, plain, max_size=2)),
    (list, st.lists(plain, max_size=2)),
]


def _containers(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    keys = st.sampled_from(KEYS)
    return st.one_of(
        inner.map(lambda of: (_generic(list, of), st.lists(of[1], max_size=3))),
        inner.map(lambda of: (_generic(Sequence, of), st.lists(of[1], max_size=2).map(tuple))),
        inner.map(lambda of: (_generic(deque, of), st.lists(of[1], max_size=2).map(deque))),
        inner.map(lambda of: (_generic(tuple, of, (..., None)), st.lists(of[1]).map(tuple))),
        st.tuples(inner, inner).map(lambda of: (_generic(tuple, *of), st.tuples(*_values(of)))),
        keys.map(lambda of: (_generic(set, of), st.sets(of[1], max_size=3))),
        keys.map(lambda of: (_generic(frozenset, of), st.frozensets(of[1], max_size=3))),
        keys.map(
            lambda of: (_generic(Counter, of), st.dictionaries(of[1], st.just(2)).map(Counter))
        ),
        st.tuples(keys, inner).map(lambda of: (_generic(dict, *of), st.dictionaries(*_values(of)))),
        st.tuples(keys, inner).map(
            lambda of: (_generic(Mapping, *of), st.dictionaries(*_values(of)))
        ),
        # The text of an absent Mixed and of Mixed.NOTHING is the same.
        inner.filter(lambda of: of[0] not in (Any, Mixed)).map(
            lambda of: (Union[(of[0], None)], st.none() | of[1])  # noqa: UP007
        ),
    )


def _dataclass(of: Kind) -> Kind:
    made = make_dataclass("Made", [("inner", of[0]), ("left", of[0] | None, None)])
    return made, st.builds(made, of[1])


def _typed_dict(of: Kind) -> Kind:
    made = TypedDict("made", {"in-ner": of[0], "left": NotRequired[of[0]]})  # type: ignore[valid-type]
    return made, st.fixed_dictionaries({"in-ner": of[1]}, optional={"left": of[1]})


def _model(of: Kind) -> Kind:
    """Return a model with a field; the type itself where pydantic has no rule for it."""
    try:
        made = create_model("Made", inner=of[0], left=(of[0] | None, None))
        made.model_rebuild()
    except PydanticUserError:
        return of
    return made, st.builds(made.model_construct, inner=of[1], left=st.none())


def _generic(kind: Any, *of: tuple[Any, Any]) -> Any:
    return kind[tuple(each for each, _ in of)]


def _values(of: tuple[Kind, Kind]) -> Any:
    return [values for _, values in of]


kinds = st.recursive(st.sampled_from(SCALARS), _containers, max_leaves=4)
records = kinds.map(_dataclass) | kinds.map(_typed_dict)
models = (kinds | records).map(_model)
# Values of any type, for fields of any other.
values = st.one_of(
    [
        *(good for _, good in SCALARS),
        st.just(SECRET),
        numbers,
        st.just(float("nan")),
        st.builds(object),
        st.lists(texts, max_size=2).map(tuple),
        st.binary(max_size=3).map(bytearray),
        st.just(OrderedDict(b=1, a=2)),
        # A key may be in the path of an error, but for redacted types.
        st.just(defaultdict(int, {"key": 1})),
        st.sampled_from(["\0", "\ud800", ["\0"], {"\0": 1}, 10**5000, 2**53 + 1]),
        st.dictionaries(st.integers() | st.booleans() | texts, st.dates() | texts, max_size=2),
        st.lists(st.dates() | st.decimals() | st.sampled_from([*Size, *Level]), max_size=2),
    ]
)


def _class_of(kind: Any) -> type[WorkItem]:
    """Make a work item class with one field; each replaces the one before in the registry."""
    body = {
        "__annotations__": {"x": kind},
        "__module__": __name__,
        "__qualname__": "Generated",
        "work_type": f"{__name__}.Generated",
        "perform": lambda *_: None,
    }
    return define(type("Generated", (WorkItem,), body))


def _after_the_database(text: str) -> Any:
    """Return what a worker reads after jsonb: no exponents, keys by length."""

    def number(text: str) -> Any:
        return int(Decimal(text)) if "e+" in text else float(text)

    def sorted_by_length(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(sorted(dict(pairs).items(), key=lambda pair: (len(pair[0]), pair[0])))

    return json.loads(text, parse_float=number, object_pairs_hook=sorted_by_length)


def _exact(value: Any) -> Any:
    """Return a value with all types written out, so that True and 1 differ; 1 and 1.0 may not."""
    if type(value) in (int, float):
        return "number", Fraction(value)
    if isinstance(value, datetime):
        return datetime, value.isoformat()
    is_whole = isinstance(value, enum.Enum) or not isinstance(value, Collection)
    return type(value), _fields(value) if is_whole else _parts(value)


def _parts(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray):
        return bytes(value) if isinstance(value, bytes | bytearray) else str(value)
    if isinstance(value, Mapping):
        pairs = [(_exact(key), _exact(each)) for key, each in value.items()]
        return tuple(pairs) if isinstance(value, OrderedDict) else frozenset(pairs)
    parts = map(_exact, value)
    return frozenset(parts) if isinstance(value, set | frozenset) else tuple(parts)


def _fields(value: Any) -> Any:
    kind = type(value)
    if attrs.has(kind):
        return tuple(_exact(getattr(value, each.name)) for each in attrs.fields(kind))
    if is_dataclass(value) or isinstance(value, BaseModel):
        return tuple(map(_exact, vars(value).values()))
    return str(value)


def _read_back(work: WorkItem) -> Any:
    statement, (_, text, *_) = enqueue_call("txqueue", work, {})
    assert "enqueue" in statement
    return decode(type(work), _after_the_database(str(text)))


@settings(deadline=None)
@given(st.data())
def test_a_value_of_the_declared_type_is_read_back(data: st.DataObject) -> None:
    """Whatever the type: enqueue accepts the values of that type, and the worker reads the same."""
    kind, good = data.draw(kinds | records)
    work: Any = _class_of(kind)
    given_value = data.draw(good)
    _check_schema(work, json.loads(json.dumps(encode(work(given_value)))))
    assert _exact(given_value) == _exact(_read_back(work(given_value)).x)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_value_is_read_back_or_refused(data: st.DataObject) -> None:
    """Whatever the type and value: what the worker would read otherwise is refused, with path;
    what is accepted is valid by the schema of the type.
    """
    kind, good = data.draw(kinds | records | models)
    work: Any = _class_of(kind)
    given_value = data.draw(values | good | st.lists(values, max_size=2))
    try:
        read = _read_back(work(given_value))
    except InvalidWork as error:
        refused = error
    else:
        assert _exact(given_value) == _exact(read.x)
        _check_schema(work, json.loads(json.dumps(encode(work(given_value)))))
        return
    assert "$.x" in refused.what
    assert "Generated" in refused.what
    assert refused.remedy
    assert SECRET not in str(refused)


def _check_schema(cls: type[WorkItem], payload: Any) -> None:
    schema = payload_schema(cls)
    assert schema
    Draft202012Validator(schema).validate(payload)
    assert find_misfit(schema, payload) is None


SENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Size, "nonsense"),
        (Size, "s"),
        (str, Size.SMALL),
        (int, Level.LOW),
        (Level, True),
        (Mixed, True),
        (Literal[1, 2], True),
        (Literal[1, 2], 1.0),
        (list[str], "abc"),
        (list[str], {"a": 1}),
        (list[str], ("a",)),
        (list[int], b"ab"),
        (dict[int, str], {"1": "a"}),
        (dict[int, str], {True: "a"}),
        (datetime, date(2026, 1, 1)),
        (date, SENT),
        (time, "10:30"),
        (dict[time, int], {time(10, tzinfo=ZoneInfo("Europe/Berlin")): 1}),
        (time, time(10, tzinfo=ZoneInfo("Europe/Berlin"))),
        (timedelta, 90),
        (timedelta, "PT90S"),
        (Any, timedelta(1)),
        (Decimal, 1.1),
        (UUID, "12345678-1234-5678-1234-567812345678"),
        (dict, {"when": SENT}),
        (dict, {1: "a"}),
        (Any, SENT),
        (Any, (1,)),
        (float, 2**53 + 1),
        (float, float("nan")),
        (OrderedDict[str, int], OrderedDict(b=1, a=2)),
    ],
    ids=str,
)
def test_what_would_arrive_otherwise_is_refused(kind: Any, value: Any) -> None:
    """The error has the path of the field."""
    work: Any = _class_of(kind)
    with pytest.raises(InvalidWork, match=r"@ \$\.x"):
        enqueue_call("txqueue", work(value), {})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Size, "x"),
        (Level, True),
        (Level, 1.0),
        (Literal[1, 2], True),
        (list[str], "abc"),
        (list[str], {"a": 1}),
        (set[str], "abc"),
        (tuple[str, ...], "abc"),
        (dict, [["a", 1]]),
        (dict[int, str], {"01": "a"}),
        (dict[bool, str], {"True": "a"}),
        (Leaf, {"name": "a", "below": {"name": "b"}}),
        (time, 10),
        (time, "10 o'clock"),
        (timedelta, 90),
        (timedelta, "90"),
        (timedelta, "P"),
        (timedelta, "PT"),
        (timedelta, "P1Y"),
        (timedelta, "P1M"),
        (timedelta, "PT1.0000001S"),
        (timedelta, "PT\u0661S"),
        (timedelta, "P9999999999D"),
        *((kind, SECRET) for kind in (int, float, bool, UUID, Decimal, date, Size)),
    ],
    ids=str,
)
def test_a_payload_of_another_type_is_refused(kind: Any, value: Any) -> None:
    """A worker reads what SQL clients have enqueued by the same types; no value is shown."""
    with pytest.raises(InvalidWork, match=r"Generated.* @ \$\.x") as caught:
        decode(_class_of(kind), {"x": value})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("PT1H30M", timedelta(minutes=90)),
        ("PT90.5S", timedelta(seconds=90.5)),
        ("P2W", timedelta(weeks=2)),
        ("-P1DT2H", -timedelta(hours=26)),
    ],
)
def test_a_length_of_time_from_sql(text: str, length: timedelta) -> None:
    """In ISO 8601, in whatever units it is."""
    read: Any = decode(_class_of(timedelta), {"x": text})
    assert read.x == length


def test_a_check_by_the_schema_names_the_path_of_a_payload_that_cannot_be_read() -> None:
    """In the same form for payloads that differ in the same way, and without a value or key."""
    schema = payload_schema(Shaped) or {}
    good: dict[str, Any] = {"number": 1, "size": "s", "leaves": {SECRET: [{"name": "a"}]}}
    assert find_misfit(schema, good) is None
    misfits: dict[str, dict[str, Any]] = {
        "expected integer @ $.number": {"number": True},
        "invalid value (enum ['s', 'l']) @ $.size": {"size": SECRET},
        "extra fields found @ $": {SECRET: 1},
        "expected number @ $.ratio": {"ratio": SECRET},
        "expected string @ $.leaves[...][...].name": {"leaves": {SECRET: [{"name": 1}]}},
        "required field missing @ $.invoice.total": {"invoice": {"dueDate": "2026-01-01"}},
        "invalid value (format date) @ $.invoice.dueDate": {
            "invoice": {**IN_JSON, "dueDate": SECRET}
        },
        "more than expected @ $.pair[...]": {"pair": [1, "a", SECRET]},
    }
    assert {what: find_misfit(schema, {**good, **wrong}) for what, wrong in misfits.items()} == {
        what: what for what in misfits
    }


@pytest.mark.parametrize("kind", [Leaf, Leaf | None, dict[str, Leaf], list[Leaf]], ids=str)
def test_a_payload_that_has_no_object_where_a_class_is_expected(kind: Any) -> None:
    """The error names what is expected."""
    value = {dict[str, Leaf]: {"a": [1]}, list[Leaf]: [[1]]}.get(kind, [1])
    with pytest.raises(InvalidWork, match=r"expected an object, got list @ \$\.x"):
        decode(_class_of(kind), {"x": value})


@pytest.mark.parametrize("number", [1e23, 2.0**60, 1e308])
def test_a_large_float_that_differs_from_its_decimal(number: float) -> None:
    """A float takes it; where an int fits as well, it would arrive as another number."""
    assert _read_back(_class_of(float)(x=number)).x == number  # type: ignore[call-arg]
    for kind in (int | float, Any):
        with pytest.raises(InvalidWork, match=r"float would arrive as int @ \$\.x"):
            encode(_class_of(kind)(x=number))  # type: ignore[call-arg]


def test_a_field_that_json_does_not_carry_is_refused_if_it_differs() -> None:
    """A field without init is made anew by the worker; if it is part of the equality, it counts."""

    @define
    class Counted(WorkItem):
        names: list[str]
        count: int = field(init=False, default=0)
        cache: dict[str, int] = field(init=False, factory=dict, eq=False)

        def perform(self, job: Any) -> None:
            pass

    work = Counted(["a"])
    work.cache["a"] = 1
    assert encode(work) == {"names": ["a"]}
    work.count = 1
    with pytest.raises(InvalidWork, match=r"its value would change @ \$\.count"):
        encode(work)


@dataclass
class Plain(WorkItem):
    """A dataclass as the whole payload."""

    number: int
    orders: list[Order]

    group = Key("{number}")

    def perform(self, job: Any) -> None:
        """Do nothing."""


class Modelled(WorkItem, BaseModel):
    """A model as the whole payload."""

    queue: ClassVar = "mail"
    redacted: ClassVar = True
    number: int
    invoice: Invoice

    def perform(self, job: Any) -> None:
        """Do nothing."""


@task
def bill(invoice: Invoice, part: Part) -> None:
    """Do nothing."""


class Address(TypedDict):
    """A TypedDict as the whole payload of a task."""

    street: str
    since: date


@task
def move(**address: Unpack[Address]) -> str:
    """Return what the handler gets."""
    return f"{address['street']} {address['since'].year}"


INVOICE = Invoice(total=Decimal("1.50"), dueDate=date(2026, 1, 1))
IN_JSON: Any = {"total": "1.50", "dueDate": "2026-01-01", "lines": {}, "order": None}


@pytest.mark.parametrize(
    ("work", "payload"),
    [
        (Plain(7, [Order(1)]), {"number": 7, "orders": [vars(Order(1))]}),
        (Modelled(number=7, invoice=INVOICE), {"number": 7, "invoice": IN_JSON}),
        (move.work(street="a", since=date(2026, 1, 1)), {"street": "a", "since": "2026-01-01"}),
        (bill.work(INVOICE, {"name": "a"}), {"invoice": IN_JSON, "part": {"name": "a"}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_whole_payload(work: WorkItem, payload: Any) -> None:
    """It is what an attrs class with these fields has."""
    assert encode(work) == payload
    assert decode(type(work), payload) == work


def test_a_dataclass_below_an_attrs_class_is_refused() -> None:
    """Its own fields would be lost on the way."""
    mixed: Any = dataclass(type("Mixed", (Shaped,), {"__annotations__": {"more": int}, "more": 1}))
    with pytest.raises(InvalidWork, match="an attrs class and a dataclass; decorate it as"):
        encode(mixed())


def test_classes_of_a_union_with_the_same_fields_are_refused() -> None:
    """The worker could not tell which one is meant."""
    one, other = make_dataclass("One", [("x", int)]), make_dataclass("Other", [("x", int, 1)])
    cls: Any = _class_of(one | other)
    with pytest.raises(InvalidWork, match=r"between .*; give each of these classes a field"):
        encode(cls(one(1)))


def test_a_typed_dict_whose_keys_may_be_absent_is_no_payload() -> None:
    """A function could not tell an absent key from its default; one with all keys gets them."""
    assert move.work(street="a", since=date(2026, 1, 1)).perform(None) == "a 2026"

    def wrong(**part: Unpack[Part]) -> None:
        """Do nothing."""

    with pytest.raises(InvalidWork, match=r"the key orders in part of .* may be absent"):
        task(wrong)


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (Order, {"number": SECRET}, r"expected int @ \$\.x\.number$"),
        (Part, {"name": "a", "orders": [{}]}, r"field missing @ \$\.x\.orders\[0\]\.number$"),
        (Part, {"name": "a", "more": 1}, r"extra fields found \(more\) @ \$\.x$"),
        (Line, {"sku": str(UUID(int=7))}, r"required field missing @ \$\.x\.sent$"),
        (Invoice, {**IN_JSON, "dueDate": SECRET}, r"invalid value @ \$\.x\.dueDate$"),
        (Invoice, {**IN_JSON, "order": {}}, r"missing @ \$\.x\.order\['number'\]$"),
        (Invoice, {"dueDate": "2026-01-01"}, r"required field missing @ \$\.x\.total$"),
        (Invoice, {**IN_JSON, "total": True}, r"invalid value @ \$\.x\.total$"),
        (Invoice | Order, {"more": SECRET}, r"@ \$\.x$"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(kind: Any, value: Any, complaint: str) -> None:
    """In each kind of class; no value is shown."""
    with pytest.raises(InvalidWork) as caught:
        decode(_class_of(kind), {"x": value})
    assert re.search(complaint, caught.value.what)
    assert SECRET not in str(caught.value)


def test_a_changed_model_is_refused() -> None:
    """With the path of the wrong field, and without its value, in an error or a warning."""
    work = Modelled(number=7, invoice=INVOICE)
    assert "7" not in f"{work} {work!r}"
    work.number = SECRET  # type: ignore[assignment]
    with pytest.raises(InvalidWork, match=r"@ \$\.number;") as caught:
        encode(work)
    assert SECRET not in str(caught.value)


def test_the_version_of_a_type_includes_the_fields_of_its_parts() -> None:
    """Those of each kind of class: another version may not read what this one writes."""
    versions = set()
    for kind in (int, str):
        made = make_dataclass("Made", [("inner", kind)])
        for part in (made, create_model("Made", inner=kind)):
            versions.add(type_version(_class_of(part)))
    assert len(versions) == 2


def test_a_key_is_made_of_a_field_of_a_dataclass_or_model() -> None:
    """The database computes it, too, where payloads have the field by its name."""
    assert Plain(7, []).group == "7"
    assert parts_of(Key("{x.number}"), _class_of(Order))
    with pytest.raises(InvalidWork, match="no such field in its payload"):
        parts_of(Key("{x.due}"), _class_of(Invoice))


@define
class Shaped(WorkItem):
    """Many types.

    Only the first line is for people.
    """

    number: int
    size: Size
    ratio: float | None = 0.5
    pair: Pair = Pair(1, "a")  # noqa: RUF009 - it is immutable
    leaves: dict[str, list[Leaf]] = field(factory=dict)
    invoice: Invoice | None = None
    hidden: int = field(init=False, default=1)

    def perform(self, job: Any) -> None:
        """Do nothing."""


@settings(deadline=None)
@given(st.data())
def test_a_check_by_the_schema_finds_what_the_standard_does(data: st.DataObject) -> None:
    """In any JSON, but for whole floats, which the standard takes for integers."""
    kind, _ = data.draw(kinds | records | models)
    schema = payload_schema(_class_of(kind))
    payload = {
        "x": data.draw(plain | st.fixed_dictionaries({}, optional=dict.fromkeys("ab", plain)))
    }
    is_valid = Draft202012Validator(schema).is_valid(payload)
    misfit = find_misfit(schema or {}, payload)
    assert is_valid is (misfit is None) or "format" in str(misfit) or ".0" in str(payload)


def test_a_schema() -> None:
    """It says what workers read; the model's own part comes from pydantic."""
    schema: Any = json.loads(json.dumps(payload_schema(Shaped)))
    Draft202012Validator.check_schema(schema)
    model = schema["$defs"].pop("Invoice")
    assert {"total", "dueDate", "lines", "order"} == set(model["properties"])
    assert set(schema.pop("$defs")) == {"Leaf", "Invoice--Order", "Invoice--Level"}
    leaf = {"$ref": "#/$defs/Leaf"}
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}
    assert schema == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": Shaped.work_type,
        "description": "Many types.",
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "size": {"enum": ["s", "l"]},
            "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": 0.5},
            "pair": {**pair, "items": False, "minItems": 2, "default": [1, "a"]},
            "leaves": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": leaf},
            },
            "invoice": {"anyOf": [{"$ref": "#/$defs/Invoice"}, {"type": "null"}], "default": None},
        },
        "required": ["number", "size"],
        "additionalProperties": False,
    }


def test_a_schema_of_a_model_takes_the_numbers_of_an_enum_as_keys() -> None:
    """In JSON they are strings; pydantic's own schema wants numbers."""
    work: Any = _class_of(create_model("Counted", inner=dict[Level, int]))
    _check_schema(work, {"x": {"inner": {"1": 2}}})


def test_a_schema_of_a_redacted_type_has_no_defaults() -> None:
    """They may be secrets; nor is there a schema of annotations that cannot be evaluated."""

    @define
    class Hidden(WorkItem):
        redacted = True
        password: str = SECRET

    assert SECRET not in str(payload_schema(Hidden))
    assert payload_schema(_class_of("Nowhere")) is None


def test_an_error_of_a_redacted_type_shows_no_key() -> None:
    """Keys of a mapping are data."""

    @define
    class Hidden(WorkItem):
        redacted = True
        entries: dict[str, Any]

        def perform(self, job: Any) -> None:
            pass

    with pytest.raises(InvalidWork, match=r"date would arrive as str @ \$\.entries\[\.\.\.\]"):
        encode(Hidden({SECRET: date(2026, 1, 1)}))


@dataclass
class Letter(WorksetItem):
    """An item of a workset."""

    number: int
    price: Decimal

    def perform(self, job: Any) -> None:
        """Do nothing."""


def test_an_item_of_a_workset_may_be_a_dataclass() -> None:
    """Its fields are the columns, as those of an attrs class are."""
    assert columns_of(Letter) == [("number", "bigint"), ("price", "jsonb")]
    assert decimals_of(Letter) == {"price"}
