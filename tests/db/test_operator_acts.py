"""The table of operators' acts and the stored functions that carry them out."""

import pytest

from tests.db.masters import Master, in_each_state
from txqueue.model.operator_acts import ACTS, ValueKind
from txqueue.policy.findings.explanation import Explanation, explain_refusal, refusal_text
from txqueue.wire.admin_commands import ACT_COMMANDS

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
