"""Jobs with nothing but a payload are enqueued by a function of their own."""

import re

import psycopg2
import pytest

from tests.db.masters import Master

PLAIN = (
    "'test.kind', '{}'",
    "'test.kind', payload => '{}'",
    "payload => '{}', work_type => 'test.kind'",
    "'test.kind'::text, '{}'::jsonb",
    "'test.kind'::name, '{}'",
    "'test.kind'::char(9), '{}'",
    "\"work_type\" => 'test.kind'::text, \"payload\" => '{}'::jsonb",
)
WHOLE = (
    "'test.kind', '{}', 'default'",
    "'test.kind', '{}', null",
    "'test.kind', '{}', priority => 4",
    "'test.kind'::text, '{}'::jsonb, after_any_end => null",
    "'test.kind'::varchar, '{}'",
)


def body(node: Master) -> str:
    """The source of the function."""
    source = "select prosrc from pg_proc where oid = 'txqueue.enqueue(text, jsonb)'::regprocedure"
    return str(node.value(source))


def plan(node: Master, statement: str) -> str:
    """The plan of a statement."""
    return "\n".join(node.column(f"explain (verbose, costs off) {statement}"))


@pytest.mark.parametrize("arguments", [*PLAIN, *WHOLE])
def test_postgresql_finds_one_function_for_each_call(node: Master, arguments: str) -> None:
    """That of two arguments for whatever gives two, however they are written."""
    call = f"select txqueue.enqueue({arguments})"
    assert ("bigint[]" not in plan(node, call)) == (arguments in PLAIN)
    assert node.job(node.value(call))["state"] == "ready"


def test_parameters_without_a_type_are_text_and_json(node: Master) -> None:
    """So drivers that ask the server for the types convert objects to JSON."""
    node.cursor.execute("prepare plain as select txqueue.enqueue($1, $2)")
    kinds = "select parameter_types::text[] from pg_prepared_statements where name = 'plain'"
    assert node.value(kinds) == ["text", "jsonb"]


def test_the_plan_has_no_step_but_reads_and_the_write(node: Master) -> None:
    """None fills in columns that the statement does not name, or has a condition of its own."""
    (insert,) = re.findall(r"insert into job_ready .*? into job_id", body(node), re.DOTALL)
    insert = insert.replace("enqueue.work_type", "$1").replace("enqueue.payload", "$2")
    node.cursor.execute("set search_path = txqueue; set plan_cache_mode = force_generic_plan")
    node.cursor.execute(f"prepare plain (text, jsonb) as {insert.rpartition(' into ')[0]}")
    steps = plan(node, "execute plain('test.kind', '{}')")
    assert re.findall(r"^(?: *->  )?(Insert|Subquery|Result|Nested)", steps, re.MULTILINE) == [
        "Insert",
        "Nested",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("'test.kind'", "does not exist"),
        ("'test.kind', 5", "does not exist"),
        ("'test.kind', '{}', colour => 'red'", "does not exist"),
        ("'test.kind', null", "not a JSON object"),
        ("'test.kind', '[]'", "not a JSON object"),
        ("null, '{}'", "1 to 200 characters"),
        ("'test.kind', '{\"a\": 1e4301}'", "4300 digits"),
    ],
)
def test_what_is_wrong_is_refused_by_the_whole_function(
    node: Master, arguments: str, said: str
) -> None:
    """With its errors; the names of functions and arguments are PostgreSQL's own matter."""
    with pytest.raises(psycopg2.Error, match=said):
        node.value(f"select txqueue.enqueue({arguments})")
    assert node.states() == {}


@pytest.mark.parametrize(
    ("sequence", "arguments"),
    [
        ("has_limits", "'test.kind', '{}'"),
        (None, "'unknown.kind', '{}'"),
        (None, "'test.kind', jsonb_build_object('a', repeat('x', 5000))"),
    ],
)
def test_what_needs_a_decision_is_enqueued_by_the_whole_function(
    node: Master, sequence: str | None, arguments: str
) -> None:
    """Where there may be limits, of an unknown type, and with a large payload."""
    if sequence is not None:
        node.value(f"select setval('txqueue.{sequence}', 1)")
    job_id = node.value(f"select txqueue.enqueue({arguments})")
    assert sum(node.states().values()) == 1
    assert node.job(job_id)["queue"] == "default"
