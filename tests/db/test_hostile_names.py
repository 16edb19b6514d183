"""Names that look like SQL, JSON or a format string: they stay names."""

import json

import pytest

from tests.db.masters import Master
from txqueue.errors import InvalidWork, UnknownWorkType
from txqueue.model.work_item import WorkItem, find_work_type

EVIL = [
    "'; drop table txqueue.job; --",
    '"; drop schema txqueue cascade; --',
    "$$; select txqueue.rotate(); $$",
    '",0,1,{}],[7,"test.kind',
    '\\"',
    "%I %s %L {0}",
    "ümlaut 👩‍🚀 \u202e",
    "line\nline\ttab\x01",
]


@pytest.mark.parametrize("name", EVIL)
def test_names_of_jobs_are_kept_as_they_are(node: Master, name: str) -> None:
    """Of queues, groups and tenants; the job runs and ends as any other."""
    given = {"queue": name, "group": name, "tenant": name}
    (job_id,) = node.enqueue(given)
    taken = node.take(queues=[name])
    assert taken.ids == [job_id]
    node.cursor.execute('select queue, "group", tenant from txqueue.job')
    assert node.cursor.fetchall() == [(name, name, name)]
    assert node.complete(taken.chunks[0]) == 1
    assert node.states() == {"done": 1}


@pytest.mark.parametrize("kind", ["queue", "group", "tenant"])
@pytest.mark.parametrize("name", EVIL)
def test_names_in_controls_are_kept_as_they_are(node: Master, kind: str, name: str) -> None:
    """Of what is limited or paused, and of who did it."""
    limit = "select txqueue.set_limit(%s, %s, 2, 5, 5, null, null, %s)"
    node.value(limit, kind, name, name)
    node.value("select txqueue.pause(%s, %s, %s)", kind, name, name)
    assert node.column("select key from txqueue.control") == [name]
    assert node.column("select distinct who from txqueue.action") == [name]
    node.value("select txqueue.resume(%s, %s, %s)", kind, name, name)


@pytest.mark.parametrize("name", EVIL)
def test_names_of_nodes_are_kept_as_they_are(node: Master, name: str) -> None:
    """Of the node and its host; it is found by them."""
    node.register(name)
    node.value("select txqueue.drain_node(%s, %s)", name, name)
    state = "select state from txqueue.node_info where name = %s"
    assert node.value(state, name) == "draining"
    node.value("select txqueue.undrain_node(%s, %s)", name, name)
    assert node.value(state, name) == "alive"


@pytest.mark.parametrize("name", EVIL)
def test_a_type_of_no_node_never_leaves_the_queue(node: Master, name: str) -> None:
    """No node can publish such a name, so none of its jobs gets into a chunk's text."""
    (job_id,) = node.enqueue({"work_type": name})
    with pytest.raises(Exception, match="violates check constraint"):
        node.publish(name)
    assert node.take(work_types=[name, "test.kind"]).ids == []
    assert node.waiting("type") == [job_id]
    node.value("select txqueue.enqueue_assigned(%s, %s, %s, '{}')", *node_of(node), name)
    assert node.states() == {"waiting": 2}
    with pytest.raises(InvalidWork):
        type("Evil", (WorkItem,), {"work_type": name})


def node_of(session: Master) -> tuple[int, int]:
    """The node of a session, and its run."""
    return session.node_id, session.incarnation


@pytest.mark.parametrize("options", [{"created_by": '"],[1,"x"'}, {"tags": {"a": "\\"}}])
def test_options_do_not_break_a_chunk(node: Master, options: object) -> None:
    """They are JSON in JSON: the worker reads what was given."""
    node.enqueue({"options": options, "payload": {'"],[': ']],"'}}, {})
    (chunk,) = node.claim()
    assert [job.terms for job in chunk.jobs] == [options, None]
    assert chunk.jobs[0].payload == {'"],[': ']],"'}


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "subprocess", "txqueue.demo"])
def test_a_type_is_looked_up_and_never_imported(name: str) -> None:
    """What no module of the application has defined is unknown, though it could be imported."""
    with pytest.raises(UnknownWorkType):
        find_work_type(name)


def test_a_name_with_a_nul_is_refused(node: Master) -> None:
    """PostgreSQL cannot store such text."""
    with pytest.raises(Exception, match=r"\\u0000|NUL"):
        node.value("select txqueue.enqueue_many(%s)", json.dumps([{"queue": "a\0b"}]))
