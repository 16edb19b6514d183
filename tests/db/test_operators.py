"""What a node asks and does for operators over its pool, bounded and one thing at a time; the table
of acts and the stored functions that carry them out.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from twisted.internet.defer import Deferred, gatherResults

from tests.db.masters import Master, in_each_state
from tests.db.test_encrypted import Secret, Shy
from tests.waiting import running_reactor
from txqueue.errors import DatabaseUnavailable, InvalidWork, JobNotFound, KeyUnavailable, Refused
from txqueue.model.operator_acts import ACTS, ValueKind
from txqueue.node.settings import policy_row
from txqueue.policy.findings.explanation import Explanation, explain_refusal, refusal_text
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import Unanswered
from txqueue.store.enqueueing.encryption import KEY, decrypted
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.operations import Operations
from txqueue.store.operator_arguments import signal_to_send
from txqueue.store.reads.job_details import about_job, about_obstacles
from txqueue.store.reads.job_search import about_jobs
from txqueue.wire.admin_commands import ACT_COMMANDS


@pytest.fixture
def pool(node: Master, dsn: str) -> Iterator[ConnectionPool]:
    """Connections as a node's, of which there are two."""
    assert node.incarnation
    pool = ConnectionPool(running_reactor(), dsn, 2, "test", patience=60)
    yield pool
    pool.close()


def bare(sql: str) -> Inquiry[list[dict[str, Any]]]:
    """Ask with a statement of the test's own."""
    return (yield Question(sql))


async def test_nothing_is_changed_by_asking(pool: ConnectionPool) -> None:
    """Whatever the question; and the connection can write again afterwards."""
    operations = Operations(pool, "txqueue")
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        await operations.find(bare("delete from txqueue.work_type returning work_type"))
    pause = {"kind": "queue", "key": "mail", "who": "ann"}
    assert await operations.act("pause", pause) == (True,)


async def test_a_question_is_not_compiled_in_a_session_of_a_pooler(pool: ConnectionPool) -> None:
    """Where nothing is set for the whole session; what the session has stays."""
    await pool.query("select set_config('jit', 'on', false)")
    shown = bare("select current_setting('jit') as jit")
    assert await Operations(pool, "txqueue").find(shown) == [{"jit": "off"}]
    assert await pool.query("show jit") == [("on",)]


async def test_a_question_that_takes_too_long_is_given_up(
    pool: ConnectionPool,
) -> None:
    """With an error that says so; the next question is answered, without that limit elsewhere."""
    with pytest.raises(Unanswered, match="did not answer within"):
        await Operations(pool, "txqueue", patience=0.05).find(bare("select pg_sleep(60)"))
    assert await Operations(pool, "txqueue").find(bare("select 1 as one")) == [{"one": 1}]
    assert await pool.query("show statement_timeout") == [("0",)]


async def test_operators_take_one_connection(pool: ConnectionPool) -> None:
    """However many ask at a time."""
    several = Operations(pool, "txqueue")
    count = "select count(*) as n from pg_stat_activity where application_name = 'test'"
    answers = await gatherResults(
        [Deferred.fromCoroutine(several.find(bare(count))) for _ in range(5)]
    )
    assert [rows[0]["n"] for rows in answers] == [1] * 5


@pytest.mark.parametrize(
    ("act", "arguments"),
    [("cancel", {}), ("set_priority", {"priority": 9}), ("retry", {})],
)
async def test_an_act_on_a_job_that_a_transaction_has_locked(
    act: str, arguments: dict[str, int], pool: ConnectionPool, node: Master, other: Master
) -> None:
    """It says so, and what names the session, rather than that the database was slow."""
    (job_id,) = node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    other.connection.autocommit = False
    other.cursor.execute("select from txqueue.job where job_id = %s for update", (job_id,))
    operations = Operations(pool, "txqueue", patience=2)
    with pytest.raises(Refused, match="another session has locked what this needs") as caught:
        await operations.act(act, {"ids": [job_id], "who": "ann", **arguments})
    assert "txqueue explain names the session" in caught.value.remedy
    other.connection.rollback()
    assert (await operations.act(act, {"ids": [job_id], "who": "ann", **arguments}))[0] == [job_id]


@pytest.mark.parametrize("name", ["concurrency", "burst", "backlog"])
async def test_a_number_that_is_too_large(pool: ConnectionPool, name: str) -> None:
    """It is named: PostgreSQL would say that there is no such function."""
    limit = {"kind": "queue", "key": "mail", "rate": 1.0, "who": "ann"}
    most = 2**63 - 1 if name == "backlog" else 2**31 - 1
    operations = Operations(pool, "txqueue")
    with pytest.raises(Refused, match=f"^{name} {most + 1} is above {most}"):
        await operations.act("set_limit", {**limit, name: most + 1})
    if name != "burst":
        await operations.act("set_limit", {**limit, name: most})


async def test_a_job_and_what_was_done_to_it(pool: ConnectionPool, node: Master) -> None:
    """By its own number or among others."""
    operations = Operations(pool, "txqueue")
    first, second = node.enqueue({"payload": {"a": [1]}, "tenant": "t"}, {})
    await operations.act("cancel", {"ids": [first, second], "who": "ann"})
    await operations.act("retry", {"ids": [first], "who": "bob"})
    job = await operations.find(about_job("txqueue", first))
    assert (job["payload"], job["state"]) == ({"a": [1]}, "ready")
    assert [(act["who"], act["what"]) for act in job["actions"]] == [
        ("bob", "retry"),
        ("ann", "cancel"),
    ]
    rows, now = await operations.find(about_jobs("txqueue", {"tenant": "t", "after": None}, 5))
    assert [row["job_id"] for row in rows] == [first]
    assert now >= job["enqueued_at"]
    assert (await operations.find(about_obstacles("txqueue", first))).job_id == first
    for about in (about_job, about_obstacles):
        inquiry: Inquiry[Any] = about("txqueue", 10**12)
        with pytest.raises(JobNotFound):
            await operations.find(inquiry)


async def test_a_job_that_is_read_again_and_again(pool: ConnectionPool, node: Master) -> None:
    """Its statement is prepared, is as bounded as before, and shows what has changed."""
    operations = Operations(pool, "txqueue")
    (job_id,) = node.enqueue({})
    before = [await operations.find(about_job("txqueue", job_id)) for _ in range(6)]
    prepared = "select count(*) from pg_prepared_statements where statement like '%find_actions%'"
    assert await pool.query(prepared) == [(1,)]
    await operations.act("cancel", {"ids": [job_id], "who": "ann"})
    after = await operations.find(about_job("txqueue", job_id))
    assert [job["state"] for job in (*before, after)] == ["ready"] * 6 + ["cancelled"]
    node.connection.autocommit = False
    node.cursor.execute("lock table txqueue.action in access exclusive mode")
    with pytest.raises(Refused, match="locked"):
        await Operations(pool, "txqueue", patience=1).find(about_job("txqueue", job_id))
    node.connection.rollback()


async def test_the_signal_of_an_operator_to_an_encrypted_type(
    pool: ConnectionPool, node: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node encrypts its value; without a key, it is refused before it is sent."""
    operations = Operations(pool, "txqueue")
    rows = [policy_row(cls) for cls in (Secret, Shy)]
    node.value("select txqueue.publish(%s)", json.dumps(rows))
    secret, shy = node.enqueue(
        {"work_type": Secret.work_type, "payload": {"encrypted": "x"}},
        {"work_type": Shy.work_type},
    )
    signal = {"name": "go", "value": '{"code": 7}'}

    async def stored(job_id: int) -> object:
        arguments = await signal_to_send(operations, "txqueue", {**signal, "job_id": job_id})
        await operations.act("send_signal", {**arguments, "who": "ann"})
        return node.value("select value from txqueue.job_signal where job_id = %s", job_id)

    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(KeyUnavailable):
        await stored(secret)
    assert await stored(shy) == {"code": 7}
    monkeypatch.setenv(KEY, Fernet.generate_key().decode())
    assert decrypted(Secret.work_type, "signal", await stored(secret)) == {"code": 7}
    with pytest.raises(Refused, match="there is no job 999"):
        await stored(999)


async def test_a_signal_that_its_wait_cannot_read_is_not_sent(
    pool: ConnectionPool, node: Master
) -> None:
    """Whatever face the operator uses; a value that is left out is null, which is no answer."""
    operations = Operations(pool, "txqueue")
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    wait = {"name": "a", "kind": "signal", "signal": "go", "annotation": "bool"}
    node.settle(chunk, "suspended", waits=[wait, {**wait, "name": "b", "annotation": "int"}])
    for value in ("3", None):
        with pytest.raises(InvalidWork, match="awaits bool as the signal 'go'"):
            await signal_to_send(
                operations, "txqueue", {"job_id": job_id, "name": "go", "value": value}
            )
    for fitting in ({"name": "go", "value": "true"}, {"name": "other", "value": "3"}):
        given = {"job_id": job_id, **fitting}
        assert await signal_to_send(operations, "txqueue", given) == given


TYPES = {
    ValueKind.TEXT: {"text"},
    ValueKind.WHOLE: {"integer", "bigint", "smallint"},
    ValueKind.NUMBER: {"double precision", "numeric"},
    ValueKind.FLAG: {"boolean"},
    ValueKind.MOMENT: {"timestamptz"},
    ValueKind.JSON: {"jsonb"},
    ValueKind.NAMES: {"text[]"},
    ValueKind.IDS: {"bigint[]"},
}
EXAMPLES = {
    ValueKind.WHOLE: "7",
    ValueKind.TEXT: "'mail'",
    ValueKind.MOMENT: "now()",
    ValueKind.JSON: "'{}'",
}
OF_SCHEDULES = {"pause_schedule", "resume_schedule", "remove_schedule", "run_schedule"}


def parameters(node: Master, name: str) -> dict[str, str]:
    """The parameters of a stored function, with their types."""
    listed = node.value(
        "select pg_get_function_identity_arguments(oid) from pg_proc"
        " where pronamespace = 'txqueue'::regnamespace and proname = %s",
        name,
    )
    taken = (each.removeprefix("IN ") for each in listed.split(", ") if "OUT " not in each)
    return {
        each.partition(" ")[0]: each.partition(" ")[2].replace(
            "timestamp with time zone", "timestamptz"
        )
        for each in taken
    }


@pytest.mark.parametrize("name", ACTS)
def test_an_act_is_a_call_of_its_function(node: Master, name: str) -> None:
    """Each argument is a parameter of its type, as is `who`, and nodes may call the function."""
    found = parameters(node, name)
    assert found["who"] == "text"
    for value in ACTS[name].takes:
        assert found[value.parameter or value.name] in TYPES[value.kind]
    assert node.value(
        "select has_function_privilege('txqueue_worker', oid, 'execute') from pg_proc"
        " where pronamespace = 'txqueue'::regnamespace and proname = %s",
        name,
    )


def test_each_act_has_a_command() -> None:
    """Those on schedules share one."""
    assert ACT_COMMANDS.keys() | OF_SCHEDULES | {"enqueue_by_operator"} == ACTS.keys()


@pytest.mark.parametrize("name", [name for name, act in ACTS.items() if act.states])
def test_an_act_changes_jobs_in_its_states(node: Master, name: str) -> None:
    """Those that are given by number, and no others, as the table says to all faces."""
    jobs = in_each_state(node)
    extra = "".join(f", {value.parameter} => {EXAMPLES[value.kind]}" for value in ACTS[name].asked)
    node.cursor.execute(
        f"select refused from txqueue.{name}(%s::bigint[], who => 'ann'{extra})",
        (list(jobs.values()),),
    )
    [(refused,)] = node.cursor.fetchall()
    waiting = {"again": "waiting", "later": "waiting"}
    changed = {waiting.get(state, state) for state in jobs if jobs[state] not in refused}
    assert changed == set(ACTS[name].states)
    # What it left unchanged has a reason to show.
    assert refusal_text(explain_refusal(name, Explanation(7, "done", "done", "it is done", "")))
