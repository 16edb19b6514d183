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
from txqueue.policy.facts.obstacles import GRANT


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
        ("alter role {role} nologin", "may not log in", "dead-nodes"),
        ("drop role {role}", "does not exist", "dead-nodes"),
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
    node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
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
