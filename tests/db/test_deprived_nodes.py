"""A node whose role has lost its rights cannot report that: the tools find it by its role."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from psycopg2.extensions import make_dsn

from tests.db.masters import Master, master
from tests.db.test_explain import explained
from tests.fixtures.databases import execute_apart
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.policy.findings.obstacles import GRANT


@pytest.fixture
def role(dsn: str) -> Iterator[str]:
    """A login with the rights of nodes."""
    name = f"node_{uuid4().hex[:12]}"
    execute_apart(dsn, "create role {} login password 'right' in role txqueue_worker", name)
    yield name
    execute_apart(dsn, "select {}.grant_roles()", "txqueue")
    execute_apart(dsn, "drop role if exists {}", name)


@pytest.fixture
def printed(dsn: str, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Any]:
    """Run a command as the operator; return its document."""

    def run_command(name: str) -> Any:
        run(["--dsn", dsn, "--json", name], GlobalOptions())
        return json.loads(capsys.readouterr().out)

    return run_command


USAGE = "lacks usage on the schema txqueue"


@pytest.mark.parametrize(
    ("loss", "said", "check"),
    [
        ("revoke txqueue_worker from {role}", USAGE, "refused-statements"),
        ("revoke usage on schema txqueue from txqueue_worker", USAGE, "dead-nodes"),
        (
            "revoke execute on function txqueue.heartbeat from txqueue_worker",
            "lacks execute on heartbeat()",
            "dead-nodes",
        ),
    ],
)
def test_tools_name_the_right_that_a_node_has_lost(
    node: Master,
    *,
    dsn: str,
    role: str,
    printed: Callable[[str], Any],
    loss: str,
    said: str,
    check: str,
) -> None:
    """Explain, status and doctor, before and after its lease has expired."""
    serves_another_queue(node)
    with master(make_dsn(dsn, user=role, password="right"), "deprived") as deprived:
        assert deprived.beats()
    if check == "dead-nodes":
        silent = (
            "update txqueue.node_info set heartbeat_at = now() - interval '1 h' where name = %s"
        )
        node.cursor.execute(silent, ("deprived",))
    (job,) = node.enqueue({})
    assert explained(node, job).remedy != GRANT
    node.cursor.execute(loss.format(role=role))
    what = f"its role {role} {said}"
    explanation = explained(node, job)
    assert what in explanation.detail
    assert explanation.remedy == GRANT
    assert what in str(printed("status")["warnings"])
    [found] = [each for each in printed("doctor")["checks"] if each["check"] == check]
    assert what in str(found["findings"])


def serves_another_queue(node: Master) -> None:
    """Have a node run that does nothing for the jobs of these tests."""
    node.cursor.execute("update txqueue.node_info set queues = '{other}', work_types = '{}'")


def silence(node: Master, dsn: str, role: str) -> int:
    """Leave a node as the only one of its queue, silent for long, and a job for it."""
    serves_another_queue(node)
    with master(make_dsn(dsn, user=role, password="right"), "deprived") as deprived:
        assert deprived.beats()
    node.cursor.execute(
        "update txqueue.node_info set heartbeat_at = now() - interval '1 h' where name = 'deprived'"
    )
    (job,) = node.enqueue({})
    return job


def test_a_role_that_is_gone_has_one_remedy_in_all_tools(
    node: Master, *, dsn: str, role: str, printed: Callable[[str], Any]
) -> None:
    """The same one, also where no live node serves the queue: a new node would not help."""
    job = silence(node, dsn, role)
    node.cursor.execute(f"drop role {role}")
    said, remedy = "does not exist", f"create role {role} login in role txqueue_worker"
    told = explained(node, job)
    assert said in told.detail
    assert remedy in told.remedy
    checks = {each["check"]: each["findings"] for each in printed("doctor")["checks"]}
    warned = [
        each
        for each in printed("status")["warnings"]
        if each["kind"] in ("dead_node", "unserved_queue", "unknown_type")
    ]
    found = [*checks["dead-nodes"], *checks["unserved-queues"], *warned]
    assert len(found) >= 4
    for each in found:
        assert said in each["what"], each
        assert remedy in each["remedy"], each


def test_tools_name_the_silent_node_that_served_the_queue(
    node: Master, *, dsn: str, role: str, printed: Callable[[str], Any]
) -> None:
    """Nothing is known of it but that it is silent: its process and log say why."""
    job = silence(node, dsn, role)
    told = explained(node, job)
    assert "; node deprived did, whose last heartbeat was 1 h ago" in told.detail
    see = "see the process and the log of node deprived on "
    assert told.remedy.startswith(see)
    checks = {each["check"]: each["findings"] for each in printed("doctor")["checks"]}
    [dead], [unserved] = checks["dead-nodes"], checks["unserved-queues"]
    assert dead["why"] == "jobs of its queue default do not run"
    assert "; node deprived did" in unserved["what"]
    warned = {each["kind"]: each["remedy"] for each in printed("status")["warnings"]}
    for remedy in (dead["remedy"], unserved["remedy"], warned["dead_node"]):
        assert remedy.startswith(see)
    assert warned["unserved_queue"].startswith(see)


def test_that_no_node_runs_comes_first_and_explains_the_rest(
    node: Master, *, dsn: str, role: str, printed: Callable[[str], Any]
) -> None:
    """Neither status nor doctor repeats it for each node, queue, work type and schedule."""
    silence(node, dsn, role)
    node.enqueue({"queue": "b"}, {"work_type": "c"})
    node.cursor.execute(
        "insert into txqueue.schedule (name, kind, seconds, job, next_due) values"
        """ ('nightly', 'every', 60, '{"work_type": "test.kind"}', now() - interval '1 h')"""
    )
    before = {each["kind"] for each in printed("status")["warnings"]}
    assert before == {"dead_node", "unserved_queue", "unknown_type", "overdue_schedules"}
    node.cursor.execute(f"drop role {role}")
    node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
    [warned] = printed("status")["warnings"]
    checks = printed("doctor")["checks"]
    found = {
        each["check"]: each["findings"]
        for each in checks
        if each["topic"] in ("nodes", "work") and each["findings"]
    }
    assert found.keys() == {"running-nodes"}
    [told] = found["running-nodes"]
    assert told["severity"] == "fault"
    for text in (warned, told):
        assert text["what"].startswith("no node has run for 1 h")
        assert "does not exist" in text["what"]
        assert text["what"].endswith("; 3 jobs and 1 schedule wait for one")
        assert f"create role {role} login" in text["remedy"]
    unchecked = {each["check"] for each in checks if "running-nodes" in (each["unchecked"] or "")}
    following = {"dead-nodes", "unserved-queues", "unknown-work-types", "overdue-schedules"}
    assert unchecked == following


def test_a_type_that_none_has_published_in_a_queue_that_none_serves(
    node: Master, printed: Callable[[str], Any]
) -> None:
    """Explain names the queue, too, and doctor the type."""
    job = node.value("select txqueue.enqueue('no.such', '{}', 'far off')")
    told = explained(node, job)
    assert "work type no.such, and no live node serves the queue far off" in told.detail
    assert told.remedy == "start a node whose --app defines it, with --queues 'far off'"
    checks = {each["check"]: each["findings"] for each in printed("doctor")["checks"]}
    assert "has ever registered the work type no.such" in str(checks["unknown-work-types"])
    assert "serves the queue far off" in str(checks["unserved-queues"])
