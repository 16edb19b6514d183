"""Tags on every path of a job: enqueued, scheduled, continued, retried, repeated and archived."""

import json
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.db.letters import TRICKY
from tests.db.masters import Master
from tests.db.recurring import made_due, schedule, tick
from tests.db.tagged_work import Tagged
from txqueue import Every, WorkQueue
from txqueue.errors import InvalidWork
from txqueue.model.job_filters import checked_tags

TAGS = {"campaign": "spring 100%_'\\", "v1.2_x-y": "<b>&é</b>"}


def tags(node: Master, *ids: int) -> list[Any]:
    """Return the tags of jobs."""
    return [(node.job(job_id)["options"] or {}).get("tags") for job_id in ids]


async def test_work_is_enqueued_with_tags(node: Master, queue: WorkQueue) -> None:
    """One by one and together; those of the call replace those of the class."""
    one = await queue.enqueue(Tagged(), tags=TAGS)
    two = await queue.enqueue(Tagged("sales"))
    many = await queue.enqueue_many([Tagged(), Tagged("sales")])
    same = await queue.enqueue_many([Tagged(), Tagged("sales")], tags=TAGS)
    async with queue.transaction() as txn, txn.batch(Tagged("end"), tags=TAGS) as batch:
        await batch.enqueue(Tagged(), tags={})
    ids = [one, two, *many, *same, *batch.ids, batch.callback_id]
    team, sales = {"team": "billing"}, {"team": "sales"}
    assert tags(node, *ids) == [TAGS, sales, team, sales, TAGS, TAGS, {}, TAGS]


async def test_tags_that_are_not_valid_write_nothing(node: Master, queue: WorkQueue) -> None:
    """The error names the tag."""
    for wrong in ({"a b": "x"}, {"a": "x\n"}, {"a": "x" * 201}, {"a": 7}):
        given: Any = wrong
        with pytest.raises(InvalidWork):
            await queue.enqueue(Tagged(), tags=given)
        with pytest.raises(InvalidWork):
            await queue.schedule("often", Tagged(), Every(60), tags=given)
        with pytest.raises(InvalidWork):
            await queue.enqueue(Tagged(given))
    assert node.states() == {}


def test_sql_takes_tags(node: Master) -> None:
    """From `enqueue`, `enqueue_many` and `enqueue_assigned`."""
    options = json.dumps({"tags": TAGS})
    one = node.value("select txqueue.enqueue('test.kind', '{}', options => %s)", options)
    many = node.enqueue({"options": {"tags": TAGS}}, {})
    assigned = node.value(
        "select job_id from txqueue.enqueue_assigned(%s, %s, 'test.kind', '{}', options => %s)",
        *(node.node_id, node.incarnation, options),
    )
    assert tags(node, one, *many, assigned) == [TAGS, TAGS, None, TAGS]
    terms = {job.job_id: job.terms for chunk in node.claim() for job in chunk.jobs}
    assert terms == {one: {"tags": TAGS}, many[0]: {"tags": TAGS}, many[1]: None}


WRONG: list[Any] = [
    *(None, [], "a=b", 7, {"": "x"}, {"a b": "x"}, {"a\n": "x"}, {"ä": "x"}, {"x" * 51: "x"}),
    *({"a": 7}, {"a": None}, {"a": {}}, {"a": "x" * 201}, {"a": "x\t"}, {"a": "\x7f"}),
    *({"a": "\x85"}, {f"t{number}": "" for number in range(11)}),
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_sql_refuses_what_python_refuses(node: Master, wrong: Any) -> None:
    """Before anything is written, with a remedy and without the value."""
    options = json.dumps({"tags": wrong})
    job = f'{{"work_type": "test.kind", "payload": {{}}, "options": {options}}}'
    often = '{"kind": "every", "seconds": 9}'
    calls = {
        "select txqueue.enqueue('test.kind', '{}', options => %s)": options,
        "select txqueue.enqueue_many(%s)": f"[{job}]",
        f"select txqueue.put_schedule('x', '{often}', %s, null, '')": job,
    }
    for call, argument in calls.items():
        with pytest.raises(psycopg2.Error, match="tags are not an object") as caught:
            node.value(call, argument)
        assert caught.value.pgcode == "TXQ01"
        assert '{"campaign": "spring"}' in (caught.value.diag.message_hint or "")
    assert node.states() == {}


FREE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=205)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_.-]{1,51}", fullmatch=True) | FREE, FREE, max_size=11
    )
)
def test_sql_and_python_agree(node: Master, wanted: dict[str, str]) -> None:
    """On any text."""
    try:
        checked_tags(wanted)
        is_valid = True
    except InvalidWork:
        is_valid = False
    assert node.value("select not txqueue.has_broken_tag(%s)", json.dumps(wanted)) == is_valid


def test_a_schedule_and_a_retry_keep_tags(node: Master) -> None:
    """The schedule's own options stand beside them."""
    tick(node, made_due(node, options={"tags": TAGS}))
    (chunk,) = node.claim()
    job_id = chunk.ids[0]
    assert tags(node, job_id) == [TAGS]
    node.settle(chunk, "retry", delay=0)
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error=TRICKY)
    node.value("select retried from txqueue.retry(%s, 'ann')", [job_id])
    (chunk,) = node.claim()
    assert (chunk.jobs[0].terms["tags"], schedule(node)["job"]["options"]["tags"]) == (TAGS, TAGS)
    node.complete(chunk)
    assert tags(node, job_id) == [TAGS]
    again = node.value("select txqueue.repeat(%s, 'ann')", job_id)
    assert tags(node, again) == [TAGS]


def test_a_next_stage_has_the_tags_of_its_own_work(node: Master) -> None:
    """As it has its own group and tenant; wrong ones fail the job, not others settled with it."""
    first, second = node.enqueue({"options": {"tags": TAGS}}, {"options": {"tags": TAGS}})
    (chunk,) = node.claim()
    node.settle(
        chunk,
        "next",
        stage={"work_type": "test.kind", "payload": {}, "options": {"tags": {"a": "b"}}},
    )
    assert tags(node, first, second) == [{"a": "b"}] * 2
    (chunk,) = node.claim()
    node.settle(
        chunk, "next", stage={"work_type": "test.kind", "payload": {}, "options": {"tags": []}}
    )
    assert node.states() == {"failed": 2}


def test_an_archived_job_is_repeated_with_its_tags(node: Master) -> None:
    """Its options come from the archive."""
    columns = {"work_type": "test.kind", "queue": "default", "priority": 4, "weight": 1}
    job_id = node.value(
        "select txqueue.repeat_archived(7, %s, '{}', %s, 'ann')",
        *(json.dumps(columns), json.dumps({"tags": TAGS, "unique": None})),
    )
    assert tags(node, job_id) == [TAGS]
