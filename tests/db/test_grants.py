"""The functions in the catalogue: which roles may call them, and their search paths."""

import re
from pathlib import Path

import pytest

from tests.db.masters import Master

ROLES = ("txqueue_enqueue", "txqueue_worksets", "txqueue_worker", "txqueue_read")
ENQUEUING = [
    "backlog",
    "demand",
    "encrypted_type",
    "enqueue",
    "enqueue_assigned",
    "enqueue_checked",
    "enqueue_many",
    "identity",
    "request_end_notices",
    "signal",
    "signal_keyed",
]
WORKSETS = ["ensure_workset", "fill_workset", "retry_workset", "start_workset"]
READING = [
    "backlog",
    "chart",
    "demand",
    "explain_each",
    "explain_facts",
    "failure_kinds",
    "find_actions",
    "find_archived",
    "find_attempts",
    "find_damage",
    "find_job",
]
READING += [
    "identity",
    "is_read_in_clear",
    "lacking_right",
    "lagging_sequences",
    "readable_json",
    "readable_text",
    "schedule_runs",
]
READING += ["scheduled_keys", "silent_jobs"]
READING.insert(READING.index("schedule_runs"), "row_locker")
READING += ["stats", "updated_at"]
# It looks into tables of the application with the rights of the node that calls it.
INVOKING = ["due_schedules", "find_met_conditions", "is_input"]
# It is inlined, and names nothing but the columns of its argument.
INLINED = ["updated_at"]
FUNCTIONS = sorted((Path(__file__).parents[2] / "schema" / "functions").rglob("*.sql"))
# What may be put into a statement as it is: a number, and names that are quoted already.
NUMBERS = {"lane", "head.lane", "this.control_id", "few + 1", "signature", "its_lane"}
NUMBERS |= {"quoted_names", "quoted_columns", "quoted_aliases", "quoted_fields"}
NUMBERS |= {"its_type", "target.type"}


def functions(session: Master, condition: str) -> list[str]:
    """The functions of the schema for which a condition holds."""
    return session.column(
        "select distinct proname::text from pg_proc as function"
        f" where pronamespace = 'txqueue'::regnamespace and {condition} order by 1"
    )


def callable_by(session: Master, role: str) -> list[str]:
    """The functions that a role may call."""
    return functions(session, f"has_function_privilege('{role}', oid, 'execute')")


def test_public_has_no_rights(node: Master) -> None:
    """Neither a function nor a table nor the schema itself."""
    assert callable_by(node, "public") == []
    held = "has_schema_privilege('public', 'txqueue', '{}')"
    assert node.value(f"select {held.format('usage')} or {held.format('create')}") is False
    tables = node.column(
        "select relname::text from pg_class where relnamespace = 'txqueue'::regnamespace"
        " and relkind in ('r', 'p', 'v', 'S') and has_table_privilege('public', oid, 'select')"
    )
    assert tables == []


def test_each_role_calls_what_was_made_for_it(node: Master) -> None:
    """Who only enqueues, calls nothing that claims; who reads, nothing that writes."""
    assert callable_by(node, "txqueue_enqueue") == ENQUEUING
    assert callable_by(node, "txqueue_worksets") == WORKSETS
    assert callable_by(node, "txqueue_read") == READING
    assert {"next_job", "settle", "heartbeat"} <= set(callable_by(node, "txqueue_worker"))


@pytest.mark.parametrize("role", ROLES)
def test_a_role_makes_nothing_in_the_schema(node: Master, role: str) -> None:
    """So it can put no function or table of its own in the place of one of the queue's."""
    assert node.value(f"select has_schema_privilege('{role}', 'txqueue', 'create')") is False
    owned = "select count(*) from pg_proc where proowner = %s::regrole"
    assert node.value(owned, role) == 0
    written = node.column(
        "select relname::text from pg_class where relnamespace = 'txqueue'::regnamespace"
        " and relkind in ('r', 'p')"
        f" and has_table_privilege('{role}', oid, 'insert, update, delete, truncate, trigger')"
    )
    assert written == []


def test_what_roles_call_finds_its_names_in_the_schema_only(node: Master) -> None:
    """Whatever the caller's search path and temporary tables: each function pins its own."""
    pinned = "coalesce(proconfig @> array['search_path=txqueue, pg_temp'], false)"
    called = " or ".join(f"has_function_privilege('{role}', oid, 'execute')" for role in ROLES)
    assert functions(node, f"({called}) and not (prosecdef and {pinned})") == [*INVOKING, *INLINED]
    assert functions(node, f"({called}) and not {pinned}") == INLINED
    assert functions(node, f"prosecdef and not {pinned}") == []


def test_a_caller_s_own_tables_are_not_taken_for_the_queue_s(node: Master) -> None:
    """A temporary table of the same name catches nothing."""
    node.cursor.execute("create temporary table job_assigned (like txqueue.job)")
    node.cursor.execute("create temporary table setting (aging int)")
    node.enqueue({})
    (chunk,) = node.claim()
    assert node.value("select count(*) from pg_temp.job_assigned") == 0
    assert node.complete(chunk) == 1
    node.cursor.execute("drop table pg_temp.job_assigned, pg_temp.setting")


def executed(text: str) -> list[str]:
    """The statements that a function puts together."""
    code = re.sub(r"--.*", "", text)
    return re.findall(r"\bexecute\s+(?!on\b)(.*?)(?:;|\bloop\b)", code, re.DOTALL)


@pytest.mark.parametrize("path", FUNCTIONS, ids=lambda path: str(path.stem))
def test_names_are_quoted_where_statements_are_put_together(path: Path) -> None:
    """By format(): %I for a name, %L for a value, %s for nothing but a number of our own."""
    for statement in executed(path.read_text()):
        found = re.match(r"format\(\s*'((?:[^']|'')*)'(.*)\)", statement, re.DOTALL)
        assert found is not None, f"{statement} is not put together by format()"
        kinds = re.findall(r"%(?:\d\$)?([ILs%])", found[1])
        given = [each.strip() for each in found[2].split(" into ")[0].split(",")[1:]]
        plain = [given[min(at, len(given) - 1)] for at, kind in enumerate(kinds) if kind == "s"]
        names = {re.match(r"[\w.]+(?: \+ 1)?", each) for each in plain}
        assert {name[0] for name in names if name} <= NUMBERS, statement


def test_the_test_sees_what_is_not_quoted() -> None:
    """A name put in as it is would not pass."""
    (statement,) = executed("begin execute 'drop table ' || leaf; end")
    assert not statement.startswith("format")
