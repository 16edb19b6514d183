"""Keys that a class declares: the database computes what Python computes from the fields."""

import json
from datetime import date
from enum import IntEnum, StrEnum
from typing import Any, Final, Literal
from uuid import UUID

import psycopg2
import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from tests.db.masters import Master
from tests.db.recurring import put
from txqueue import Key, UniqueMode, WorkItem, WorkQueue
from txqueue.errors import InvalidWork
from txqueue.model.keys import parts_of
from txqueue.model.payload import encode
from txqueue.node.settings import policy_row
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.schedule_list import about_scheduled_runs, about_schedules


class Size(StrEnum):
    """Text."""

    SMALL = "s"
    LARGE = "l l"


class Level(IntEnum):
    """Whole numbers."""

    LOW = -1
    TOP = 9


@define
class Part:
    """A part of a payload."""

    number: int
    name: str | None
    is_new: bool = True


@define
class Everything(WorkItem):
    """A member of each kind that a key may name."""

    work_type = "keys.everything"

    text: str
    number: int
    flag: bool
    day: date
    uid: UUID
    size: Size
    level: Level
    choice: Literal["a", "ä"]
    part: Part
    perhaps: Part | None
    maybe: int | None = 3

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Delivery(WorkItem):
    """Work with all keys, as it would be declared."""

    work_type = "keys.delivery"
    group = Key("customer:{customer}")
    tenant = Key("{shop}")
    unique = Key("delivery {number} on {day}")
    unique_mode = UniqueMode.AGAIN

    customer: int
    number: int
    day: date = date(2026, 11, 30)
    shop: str | None = None

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Computed(WorkItem):
    """Work whose group only the class can compute."""

    work_type = "keys.computed"

    customer: int | None = None

    @property
    def group(self) -> str | None:
        """A customer's, or none."""
        return f"c{self.customer}" if self.customer else None

    def perform(self, job: Any) -> None:
        """Do nothing."""


MEMBERS: Final = (
    *("text", "number", "flag", "day", "uid", "size", "level", "choice", "maybe"),
    *("part.number", "part.name", "part.is_new", "perhaps.number"),
)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
literals = texts.map(lambda text: text.replace("{", "{{").replace("}", "}}"))
names = st.sampled_from(MEMBERS).map(lambda name: f"{{{name}}}")
templates = st.lists(literals | names, min_size=1, max_size=6).map("".join).filter(bool)
numbers = st.integers(-(2**70), 2**70)
parts = st.builds(Part, numbers, st.none() | texts, st.booleans())
works = st.builds(
    Everything,
    *(texts, numbers, st.booleans(), st.dates(), st.uuids(), st.sampled_from(Size)),
    *(st.sampled_from(Level), st.sampled_from(["a", "ä"]), parts, st.none() | parts),
    st.none() | numbers,
)


@given(template=templates, work=works)
def test_the_database_computes_what_python_does(
    node: Master, template: str, work: Everything
) -> None:
    """From payloads of all kinds of members, with texts around them."""
    key = Key(template)
    computed = node.value(
        "select txqueue.compute_key('keys.everything', 'group', %s, %s)",
        json.dumps(parts_of(key, Everything)),
        json.dumps(encode(work)),
    )
    assert computed == key.__get__(work, Everything)


@pytest.fixture
def declared(node: Master) -> Master:
    """A database in which a node has published the classes."""
    rows = [policy_row(cls) for cls in (Delivery, Computed)]
    node.value("select txqueue.publish(%s)", json.dumps(rows))
    return node


KEYS: Final = "select \"group\", tenant, options ->> 'unique' from txqueue.job where job_id = %s"


def keys_of(node: Master, job_id: int) -> list[Any]:
    """The group, the tenant and the unique key of a job."""
    node.cursor.execute(KEYS, (job_id,))
    return list(node.cursor.fetchone() or ())


TERMS: Final = json.dumps({"kind": "every", "seconds": 60})
BOUND: Final = ", options => '{\"keys\": true}'"


def enqueued(node: Master, payload: object, more: str = "", kind: str = "keys.delivery") -> int:
    """Enqueue from SQL; returns the number."""
    call = f"select txqueue.enqueue(%s, %s {more})"
    return int(node.value(call, kind, json.dumps(payload)))


async def test_all_clients_give_a_job_the_same_keys(queue: WorkQueue, declared: Master) -> None:
    """By one call, by many, and from Python; with members that are left out."""
    payload = {"customer": 7, "number": 1, "shop": "tea"}
    by_python = await queue.enqueue(Delivery(7, 1, shop="tea"))
    wanted = ["customer:7", "tea", "delivery 1 on 2026-11-30"]
    assert keys_of(declared, by_python) == wanted
    # The key that the first holds, and the mode of the class: one more run follows.
    following = enqueued(declared, payload)
    assert declared.waiting("unique") == [following]
    job = {"work_type": "keys.delivery", "payload": payload}
    both = [job, {"work_type": "other", "payload": {}}]
    ids = declared.value("select txqueue.enqueue_many(%s)", json.dumps(both))
    assert ids[0] == following
    assert keys_of(declared, following) == wanted
    assert keys_of(declared, ids[1]) == [None, None, None]
    another = enqueued(declared, {**payload, "number": 2})
    assert keys_of(declared, another) == [*wanted[:2], "delivery 2 on 2026-11-30"]


def test_a_key_that_is_named_takes_precedence(declared: Master) -> None:
    """The others are the type's; without keys a job has only those that it names."""
    named = enqueued(declared, {"customer": 7, "number": 1}, ", \"group\" => 'mine'")
    assert keys_of(declared, named) == ["mine", None, "delivery 1 on 2026-11-30"]
    bare = enqueued(declared, {"customer": 7}, ", tenant => 't', options => '{\"keys\": false}'")
    assert keys_of(declared, bare) == [None, "t", None]
    assert declared.value("select options from txqueue.job where job_id = %s", bare) is None
    job = {"work_type": "keys.delivery", "payload": {}, "options": {"keys": False, "timeout": 5}}
    [many] = declared.value("select txqueue.enqueue_many(%s)", json.dumps([job]))
    assert keys_of(declared, many) == [None, None, None]
    assert declared.value("select options from txqueue.job where job_id = %s", many) == {
        "timeout": 5
    }


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (
            {"number": 1},
            "group key of keys.delivery is made of customer, which the payload does no",
        ),
        ({"customer": 7.0, "number": 1}, "does not have as a whole number"),
        ({"customer": "7", "number": 1}, "does not have as a whole number"),
        ({"customer": True, "number": 1}, "does not have as a whole number"),
        ({"customer": 7, "number": 1, "day": "20261130"}, "does not have as a date"),
        ({"customer": 7, "number": 1, "shop": {}}, "does not have as text"),
    ],
)
def test_a_payload_without_a_member_of_a_key_is_refused(
    declared: Master, payload: Any, what: str
) -> None:
    """If the client says that it knows the keys: the error names the member; nothing is written."""
    with pytest.raises(psycopg2.Error, match=what) as refused:
        enqueued(declared, payload, BOUND)
    assert refused.value.pgcode == "TXQ01"
    assert not declared.value("select count(*) from txqueue.job")


def test_sql_names_the_keys_that_only_a_class_can_compute(declared: Master) -> None:
    """It is refused otherwise, if it says that it knows them or the setting says so of all."""
    job = {"work_type": "keys.computed", "payload": {}}
    assert keys_of(declared, enqueued(declared, {}, "", "keys.computed")) == [None, None, None]
    [many] = declared.value("select txqueue.enqueue_many(%s)", json.dumps([job]))
    assert keys_of(declared, many) == [None, None, None]
    named = ", \"group\" => 'g', options => '{\"keys\": true}'"
    assert keys_of(declared, enqueued(declared, {}, named, "keys.computed"))[0] == "g"
    for required, options in ((False, {"keys": True}), (True, {})):
        declared.cursor.execute("update txqueue.setting set keys_required = %s", (required,))
        bound = json.dumps({**job, "options": options})
        for call, *values in (
            ("select txqueue.enqueue('keys.computed', '{}', options => %s)", json.dumps(options)),
            ("select txqueue.enqueue_many(%s)", f"[{bound}]"),
            ("select txqueue.put_schedule('s', %s, %s, null, 'me')", TERMS, bound),
        ):
            with pytest.raises(psycopg2.Error, match=r"group key of keys.computed is computed by"):
                declared.value(call, *values)


def test_a_schedule_is_not_bound_by_keys_of_later_policies(declared: Master) -> None:
    """Only as it is made, by a client that says that it knows them."""
    job = {"work_type": "later.kind", "payload": {}, "options": {"keys": True}}
    declared.value("select txqueue.put_schedule('s', %s, %s, null, 'me')", TERMS, json.dumps(job))
    declared.publish("later.kind", policy={"keys": {"group": None}})
    assert declared.value("select txqueue.run_schedule('s', 'me')")
    stored = declared.value("select job from txqueue.schedule where name = 's'")
    assert stored == {"work_type": "later.kind", "payload": {}}


async def test_python_need_not_name_keys_that_it_has_computed_as_none(
    queue: WorkQueue, declared: Master
) -> None:
    """Whichever way it enqueues; the stored job has no trace of it, nor does its copy need it."""
    ids = [
        await queue.enqueue(Computed()),
        *await queue.enqueue_many([Computed(), Computed(3)]),
    ]
    async with queue.transaction() as txn:
        ids.append(await txn.enqueue(Computed()))
    groups = [keys_of(declared, each)[0] for each in ids]
    assert groups == [None, None, "c3", None]
    assert not declared.value("select count(options) from txqueue.job")
    declared.value("select count(*) from txqueue.cancel(%s::bigint[], 'me')", ids[:1])
    assert declared.value("select txqueue.repeat(%s, 'me') > 0", ids[0])


@pytest.mark.parametrize("is_archived", [False, True])
def test_keys_of_a_copy_with_another_payload(declared: Master, is_archived: bool) -> None:
    """Those that came from the former payload come from its own; what was named stays."""
    before, after = {"customer": 7, "number": 1}, {"customer": 8, "number": 2, "shop": "tea"}
    job_id = enqueued(declared, before, ", \"group\" => 'mine'")
    declared.value("select count(*) from txqueue.cancel(array[%s::bigint], 'me')", job_id)
    call: tuple[Any, ...] = ("select txqueue.repeat(%s, 'me', %s)", job_id, json.dumps(after))
    if is_archived:
        columns = {"work_type": "keys.delivery", "queue": "default", "priority": 4, "weight": 1}
        options = {"unique": "delivery 1 on 2026-11-30"}
        call = (
            "select txqueue.repeat_archived(%s, %s, %s, %s, 'me')",
            *(job_id, json.dumps({**columns, "group": "mine", "payload": before})),
            *(json.dumps(after), json.dumps(options)),
        )
    wanted = ["mine", "tea", "delivery 2 on 2026-11-30"]
    assert keys_of(declared, declared.value(*call)) == wanted


def test_no_copy_has_another_payload_with_a_key_that_the_class_computes(declared: Master) -> None:
    """Its group would be that of the former one."""
    job_id = enqueued(declared, {"customer": 1}, ", \"group\" => 'c1'", "keys.computed")
    declared.value("select count(*) from txqueue.cancel(array[%s::bigint], 'me')", job_id)
    with pytest.raises(psycopg2.Error, match=r"group key of keys.computed is computed by its cl"):
        declared.value("select txqueue.repeat(%s, 'me', '{\"customer\": 2}')", job_id)
    copy = declared.value("select txqueue.repeat(%s, 'me', '{\"customer\": 1}')", job_id)
    assert keys_of(declared, copy)[0] == "c1"


def test_the_option_keys_is_true_or_false(declared: Master) -> None:
    """Anything else is refused."""
    with pytest.raises(psycopg2.Error, match="keys is neither true nor false"):
        enqueued(declared, {"customer": 1, "number": 1}, ', options => \'{"keys": "no"}\'')


async def test_keys_that_are_too_long_are_refused_alike(queue: WorkQueue, declared: Master) -> None:
    """A tenant has at most 200 characters."""
    long = {"customer": 7, "number": 1, "shop": "x" * 201}
    with pytest.raises(psycopg2.Error, match="a tenant must have 1 to 200 characters"):
        enqueued(declared, long, BOUND)
    with pytest.raises(InvalidWork, match=r"tenant .* is not valid"):
        await queue.enqueue(Delivery(7, 1, shop="x" * 201))


def test_the_remedy_for_a_missing_member_fits_each_caller(declared: Master) -> None:
    """`txqueue schedule add` has no option for a unique key, but one for no keys."""
    job = {"work_type": "keys.delivery", "payload": {"customer": 1}, "options": {"keys": True}}
    for call, *values in (
        ("select txqueue.put_schedule('s', %s, %s, null, 'me')", TERMS, json.dumps(job)),
        ("select txqueue.enqueue_many(%s)", json.dumps([job])),
    ):
        with pytest.raises(psycopg2.Error) as refused:
            declared.value(call, *values)
        hint = refused.value.diag.message_hint
        assert hint is not None
        assert "give number as a whole number; or pass" in hint
        assert '{"keys": false} as options (--no-keys)' in hint


def test_a_schedule_shows_and_is_found_by_the_keys_that_its_jobs_get(
    declared: Master, dsn: str
) -> None:
    """Those of the class as well as those that it names; also its runs."""
    payload = {"customer": 7, "number": 1, "shop": "tea"}
    put(declared, "declared", work_type="keys.delivery", payload=payload)
    put(declared, "named", work_type="keys.delivery", payload=payload, group="vip")
    put(declared, "none", work_type="other", payload=payload)
    # Published later, with a member that the schedule's payload lacks: its jobs are refused now.
    declared.cursor.execute(
        "update txqueue.schedule set job = job || %s where name = 'none'",
        (json.dumps({"work_type": "keys.delivery", "payload": {}}),),
    )
    with Session(dsn) as session:

        def found(**filters: object) -> dict[str, tuple[str | None, str | None]]:
            rows = session.find(about_schedules("txqueue", filters, 10))
            return {row["name"]: (row["group"], row["tenant"]) for row in rows}

        assert found() == {
            "declared": ("customer:7", "tea"),
            "named": ("vip", "tea"),
            "none": (None, None),
        }
        assert found(group="customer:7").keys() == {"declared"}
        assert found(tenant="tea").keys() == {"declared", "named"}
        assert found(work_type="keys.delivery", group="vip").keys() == {"named"}
        declared.cursor.execute("update txqueue.schedule set recent = '{1}', dues = array[now()]")
        runs = session.find(about_scheduled_runs("txqueue", group="customer:7"))
        assert [(row["name"], row["group"]) for row in runs] == [("declared", "customer:7")]
