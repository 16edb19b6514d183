"""The files of the schema, as they are sent to the database."""

import re

import pytest

from txqueue.store.schema.files import Migration, functions, migrations, newest_migration, tables

STEPS = [tables("elsewhere"), *migrations("elsewhere")]
SENT = functions("elsewhere") + [(step.name, step.sql) for step in STEPS]
NOT_CODE = re.compile(r"--.*|'[^'\n]*'")


@pytest.mark.parametrize(("name", "sql"), SENT, ids=[name for name, _ in SENT])
def test_no_code_names_the_schema_as_its_file_does(name: str, sql: str) -> None:
    """A name in a place that the rule does not know would reach another schema."""
    assert "txqueue" not in NOT_CODE.sub("", sql), name
    assert re.search(r"@\w+@|txqueue[.,_']", sql) is None, name


@pytest.mark.parametrize(("name", "sql"), SENT, ids=[name for name, _ in SENT])
def test_no_plain_string_has_a_backslash(name: str, sql: str) -> None:
    """It is an escape in sessions with standard_conforming_strings = off; E'' means the same."""
    escaped = re.compile(r"--.*|E'(?:[^'\\]|''|\\.)*'|'(?P<plain>(?:[^']|'')*)'")
    plain = [match["plain"] for match in escaped.finditer(sql) if match["plain"]]
    assert not [text for text in plain if "\\" in text], name


def test_a_function_for_each_lane() -> None:
    """A file that defines a function of lane 0 makes one for each, which uses its lane's table."""
    sql = dict(functions("elsewhere"))["complete_in"]
    made = re.findall(
        r"function elsewhere\.complete_in_(\d)\([^$]*\$\$[^$]*from job_assigned_(\d)", sql
    )
    assert made == [(lane, lane) for lane in "01234567"]


def test_a_branch_for_each_lane() -> None:
    """A branch for lane 0 becomes one for each lane, and calls that lane's function."""
    sql = dict(functions("elsewhere"))["complete"]
    branches = re.findall(r"when (\d) then [^;]*complete_in_(\d)\(", sql)
    assert branches == [(lane, lane) for lane in "01234567"]


def test_messages_name_the_program() -> None:
    """A hint tells what to type, whatever the schema's name."""
    assert "'see which live: txqueue nodes'" in dict(functions("elsewhere"))["lock_live_node"]


def test_the_newest_migration_is_the_last_one() -> None:
    """Its number follows from the names of the files alone; a new schema has it at once."""
    assert newest_migration() == migrations("txqueue")[-1].number == tables("txqueue").number


def test_migrations_are_numbered_one_by_one() -> None:
    """Of two with one number the second would never be applied."""
    numbers = [step.number for step in migrations("txqueue")]
    assert numbers == list(range(38, 38 + len(numbers)))


def test_comments_of_tables_are_sent() -> None:
    """Of a table, a type, a sequence and columns, whether beside or below; no other one."""
    sent = re.findall(r"^comment on (.*) is '(.*)';$", tables("elsewhere").sql, re.MULTILINE)
    found = dict(sent)
    assert len(sent) == len(found)
    assert found["table elsewhere.late_end"].startswith("Jobs to be looked at again: a transaction")
    assert found["type elsewhere.step_bounds"].endswith("whether its jobs are counted.")
    assert found["sequence elsewhere.asleep"].startswith("Odd while some master sleeps until")
    assert found["sequence elsewhere.rotated"].endswith("in milliseconds since 1970.")
    assert found["column elsewhere.job.failed_at"] == "When the last attempt failed."
    assert found["column elsewhere.job.rank"].startswith("least(not_before - priority")
    assert found['column elsewhere.group_hold."group"'] == "The group."
    assert found["table elsewhere.workset"].endswith("or is an application''s table.")
    assert not [note for note in found.values() if "---" in note]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_migration_drops_and_replaces_no_function(step: Migration) -> None:
    """Functions and views change together, in the last transaction: until then the fleet needs
    those that it has, also if the migration waits, is refused or is killed.
    """
    code = re.sub(r"--.*|'[^'\n]*'", "", step.sql)
    changed = r"\b(?:create or replace|alter|drop) (?:function|view|procedure|routine|trigger)\b"
    assert re.findall(changed, code) == []
    assert "cascade" not in code
