"""Acts on several jobs of which one is damaged: it is refused, and the others change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.db.damage import LARGE, LOST, large_json, lose_large_values
from tests.db.masters import Master
from tests.db.test_explain import explained
from txqueue.policy.findings.explanation import explain_refusal
from txqueue.policy.findings.reason import DAMAGE_REMEDY

COLUMNS = ("payload", "options", "result", "progress", "error")
ACTS = {
    "cancel": "select cancelled, refused from txqueue.cancel(%s::bigint[], 'ann')",
    "retry": "select retried, refused from txqueue.retry(%s::bigint[], 'ann')",
    "set_priority": "select changed, refused from txqueue.set_priority(%s::bigint[], 7, 'ann')",
    "restart": """
        select array(select (run ->> 2)::bigint from jsonb_array_elements(restarted) as run),
               refused
          from txqueue.restart(%s::bigint[], 'ann')""",
}
STATES = {
    "cancel": ("ready", "waiting", "failed"),
    "retry": ("waiting", "failed", "cancelled"),
    "set_priority": ("ready", "waiting"),
    "restart": ("assigned",),
}
CASES = [
    *(("cancel", "ready", column) for column in COLUMNS),
    *((name, state, "options") for name, states in STATES.items() for state in states),
]
KIND = "f" * 12


def jobs(node: Master, state: str, column: str) -> tuple[int, int]:
    """A job in a state with a value that is lost, and a good one."""
    bad, good = node.enqueue({}, {})
    if state == "assigned":
        node.claim()
    else:
        node.cursor.execute(
            "update txqueue.job set state = %s, waiting_for = %s, not_before = %s,"
            " finished_at = now(), failed_at = now(), fingerprint = %s",
            (state, *(("time", "infinity") if state == "waiting" else (None, "now")), KIND),
        )
    value = f"boom {LARGE}" if column == "error" else large_json(unique="k")
    node.cursor.execute(f"update txqueue.job set {column} = %s where job_id = %s", (value, bad))
    lose_large_values(node)
    return bad, good


def act(node: Master, name: str, *ids: int) -> Any:
    """Act on jobs; return the numbers of those that changed, and of the others."""
    node.cursor.execute(ACTS[name], (list(ids),))
    return node.cursor.fetchone()


@pytest.mark.parametrize("column", ["payload", "options", "result", "error"])
def test_a_damaged_job_is_repeated_if_what_its_copy_needs_is_there(
    node: Master, column: str
) -> None:
    """Otherwise that is refused, with the reason and the remedy."""
    bad, _ = jobs(node, "failed", column)
    call = ("select txqueue.repeat(%s, 'ann')", bad)
    if column in ("result", "error"):
        assert node.job(node.value(*call))["state"] == "ready"
        return
    with pytest.raises(Exception, match=f"its {column} cannot be read: {LOST}") as caught:
        node.value(*call)
    assert "restore its row from a backup" in str(caught.value)


@pytest.mark.parametrize(("name", "state", "column"), CASES)
def test_an_act_changes_the_others(node: Master, name: str, state: str, column: str) -> None:
    """The reason why the damaged one stays as it is names what is lost, and the remedy."""
    bad, good = jobs(node, state, column)
    assert act(node, name, bad, good) == ([good], [bad])
    why = explain_refusal(name, explained(node, bad))
    assert (why.state, why.reason, why.remedy) == (state, "damaged", DAMAGE_REMEDY)
    assert f"its {column} cannot be read: {LOST}" in why.detail
    assert node.value("select count(*) from txqueue.request where not is_restart") == 0


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ("select retried from txqueue.retry_failures(%s, 'ann', at_most => 1)", "ready"),
        ("select postponed from txqueue.postpone_failures(%s, 'ann', 60, at_most => 1)", "waiting"),
        ("select discarded from txqueue.discard_failures(%s, 'ann', at_most => 1)", "cancelled"),
    ],
)
def test_an_act_on_a_kind_of_failure_changes_the_others(
    node: Master, call: str, state: str
) -> None:
    """Also those behind it."""
    bad, good = jobs(node, "failed", "payload")
    assert node.value(call, KIND) == 1
    states = "select state::text from txqueue.job where job_id = %s"
    assert (node.value(states, bad), node.value(states, good)) == ("failed", state)


@pytest.mark.parametrize(
    "call",
    [
        "select cancelled from txqueue.cancel(array(select job_id from txqueue.job), 'ann')",
        f"select txqueue.discard_failures('{KIND}', 'ann')",
        "select retried from txqueue.retry(array(select job_id from txqueue.job), 'ann')",
    ],
)
def test_an_act_reads_no_step(node: Master, call: str) -> None:
    """So one whose result is lost keeps no job from its end."""
    ids = node.enqueue({}, {})
    node.cursor.execute(
        "update txqueue.job set state = 'failed', finished_at = now(), failed_at = now(),"
        " fingerprint = %s, options = '{\"steps\": true}'",
        (KIND,),
    )
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind, result) values (%s, 'a', 'step', %s)",
        (ids[0], large_json()),
    )
    lose_large_values(node)
    node.value(call)
    assert "failed" not in node.states()


def test_a_request_to_cancel_a_damaged_job_stops_no_heartbeat(node: Master) -> None:
    """A job that has returned to the queue since the operator asked is cancelled by a heartbeat."""
    bad, good = jobs(node, "ready", "payload")
    node.cursor.execute(
        "insert into txqueue.request (incarnation, job_id, assignment, who)"
        " select 1000, job_id, 1000, 'ann' from txqueue.job"
    )
    assert node.value("select owned from txqueue.heartbeat(%s, 0)", node.incarnation) is not None
    states = "select state::text from txqueue.job where job_id = %s"
    assert (node.value(states, bad), node.value(states, good)) == ("ready", "cancelled")
    assert node.value("select count(*) from txqueue.request") == 0
