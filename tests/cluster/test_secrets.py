"""Passwords and payloads must not appear in any visible place."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.fernet import Fernet
from psycopg2.extensions import make_dsn

from tests.cluster.app_with_secrets import Charge, Plain, Strict
from tests.cluster.commands import called
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node, Nodes
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.store.enqueueing.encryption import KEY
from txqueue.system.processes import command_of

APP = Plain.__module__
CANARY = "s3cr3t-4111111111111111"
PASSWORD = "s3cr3t-of-the-database"


def asked(node: Node, *words: str) -> str:
    """All answers of a node to an operator."""
    told = {"TXQUEUE_NODE": f"unix:{node.folder / quote(node.name)}.sock"}
    ended = called(*words, **told)
    return ended.stdout + ended.stderr


async def test_secrets_are_nowhere_to_be_seen(nodes: Nodes, db: Database) -> None:
    """Not in argv, NODE_INFO, logs or answers to operators."""
    dsn = make_dsn(db.dsn, password=PASSWORD)
    key = Fernet.generate_key().decode()
    told = {"TXQUEUE_DSN": dsn, KEY: key}
    own = ("--workers", "1", "--unreadable-for", "0")
    node = await nodes.start(*own, app=APP, **told).up()
    misfit = db.enqueue(Strict.work_type, json.dumps({"number": CANARY, "more": CANARY}))
    unread = db.enqueue(Strict.work_type, json.dumps({"number": 7, "x": [CANARY]}))
    later = "2100-01-01T00:00Z"
    options = db.enqueue(Strict.work_type, '{"number": 1}', not_before=later)
    # The database refuses such options; a row of before may have them.
    db.value(
        "update txqueue.job set options = %s, state = 'ready', not_before = now(),"
        " waiting_for = null where job_id = %s returning 1",
        json.dumps({"timeout": CANARY}),
        options,
    )
    wrong = [misfit, unread, options]
    await eventually(lambda: db.states() == {"failed": 3}, PATIENCE)
    # The connections of the node are cut in the middle of it, which is logged.
    db.value(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name like 'txqueue %%'"
    )
    done = db.enqueue(Plain.work_type, "{}")
    await eventually(lambda: db.job(done)["state"] == "done", PATIENCE)
    answers = [asked(node, *words) for words in operators(wrong)]
    lines = [command_of(pid) for pid in node.processes()]
    assert len(lines) >= 2
    assert all(lines)
    rows = [db.row("select * from txqueue.node_info"), *map(errors_of, map(db.job, wrong))]
    seen = "\n".join([*answers, *lines, node.log, str(rows)])
    assert "Strict" in seen
    assert [secret for secret in (CANARY, PASSWORD, key) if secret in seen] == []


def operators(ids: list[int]) -> list[list[str]]:
    """What an operator may ask, but for the payload of a type that is not redacted."""
    jobs = [["explain", str(job_id)] for job_id in ids]
    return [["nodes", "--json"], ["status"], ["jobs"], *jobs, ["explain", "99999"]]


def errors_of(row: dict[str, Any]) -> str:
    """The errors stored with a failed job."""
    return str(row["error"])


async def test_encrypted_work_runs_where_the_key_is(
    nodes: Nodes, db: Database, queue: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node without it runs the rest and says so; one with another key spends no attempt."""
    key = Fernet.generate_key().decode()
    monkeypatch.setenv(KEY, key)
    without = await nodes.start("--workers", "1", app=APP).up()
    assert f"does not run {Charge.work_type}" in without.log
    job_id = await queue.enqueue(Charge(CANARY))
    assert await queue.wait(await queue.enqueue(Plain()), PATIENCE) == "plain"
    assert db.job(job_id)["state"] == "waiting"
    other = Fernet.generate_key().decode()
    await nodes.start("--workers", "1", app=APP, **{KEY: other}).up()
    await eventually(
        lambda: "no key of this process decrypts" in str(db.job(job_id)["error"]), PATIENCE
    )
    assert (db.job(job_id)["attempt"], db.job(job_id)["waiting_for"]) == (0, "time")
    db.value(
        "select txqueue.drain_node(name, 'test') from txqueue.node_info"
        " where %s = any (work_types)",
        Charge.work_type,
    )
    having = await nodes.start("--workers", "1", app=APP, **{KEY: f"{key},{other}"}).up()
    db.value("select txqueue.retry(%s, 'test')", [job_id])
    assert await queue.wait(job_id, PATIENCE) == {"charged": CANARY}
    stored = str(db.value("select string_agg(job::text, ' ') from txqueue.job"))
    shown = asked(having, "job", str(job_id), "--json")
    assert '"payload": "encrypted"' in shown
    assert CANARY not in stored + shown + having.log + without.log
