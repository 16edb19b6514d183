"""The reference is complete: generated pages are up to date, written pages are compared."""

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from typing import Final

import psycopg2
import pytest

from docs import build_schema_map, build_sync
from docs.build_reference import EXAMPLES, PAGES, SHOWN, TARGET, reference
from tests.docs.markdown import ROOT, section
from txqueue.tap import Options
from txqueue.wire import admin_commands

SQL: Final = ROOT / "docs" / "reference" / "sql.md"
ADMIN: Final = ROOT / "docs" / "reference" / "admin.md"
SETTINGS: Final = ROOT / "docs" / "reference" / "settings.md"

_COLUMNS: Final = """
    select relname, array_agg(attname::text) from pg_class
      join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
     where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p') and not relispartition
     group by relname
"""
_VIEWS: Final = "select viewname from pg_views where schemaname = 'txqueue'"
_FUNCTIONS: Final = """
    select proname from pg_proc
     where pronamespace = 'txqueue'::regnamespace and has_function_privilege(%s, oid, 'execute')
"""
_ARGUMENTS: Final = """
    select pg_get_function_arguments(oid), pg_get_function_result(oid) from pg_proc
     where pronamespace = 'txqueue'::regnamespace and proname = %s
"""


def ask(dsn: str, question: str, *values: str) -> list[tuple[str, list[str]]]:
    """Ask a database."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(question, values)
        return cursor.fetchall()


def settings() -> Iterator[str]:
    """Name every option of a node."""
    yield from (parameters[0] for parameters in Options.optParameters if parameters[0])
    yield from (name.removeprefix("opt_") for name in vars(Options) if name.startswith("opt_"))


def test_the_python_reference_is_up_to_date() -> None:
    """Otherwise run: python docs/build_reference.py."""
    files = [TARGET, *(TARGET.parent / "python-api").iterdir()]
    written = {str(file.relative_to(TARGET.parent)): file.read_text("utf-8") for file in files}
    assert written == reference()


def test_only_methods_lose_their_first_parameter() -> None:
    """The class that an assertion takes by its place is shown; coroutines are named."""
    of_tests = reference()["python-api/test-jobs.md"]
    for name in ("assert_enqueued", "refute_enqueued", "all_enqueued", "capture_enqueued"):
        assert re.search(rf"^(with )?{name}\(\s*cls\b", of_tests, re.MULTILINE)
    assert all(f"`await {name}(...)`" in of_tests for name in ("aperform", "adrain"))


@pytest.mark.parametrize("name", SHOWN)
def test_the_reference_has_the_members_that_users_have(name: str) -> None:
    """Each of them is one."""
    page = next(page for page in PAGES if name in page.names)
    text = reference()[page.file]
    for member in SHOWN[name].split():
        shown = (
            rf"^### {name}\.{member}$|^- `{member}[`:]|^(await |with )?{member}[(:]|`{member}`, "
        )
        assert re.search(shown, text, re.MULTILINE), member


def test_equal_items_refer_to_the_first() -> None:
    """Under the same name on any page."""
    text = reference()["python-api/asyncio.md"]
    assert "| as for [`WorkQueue.wait`](workqueue.md#workqueuewait). |" in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_call_what_they_show(name: str) -> None:
    """With arguments that it takes."""
    owner, _, member = name.rpartition(".")
    calls = [each for each in ast.walk(ast.parse(EXAMPLES[name])) if isinstance(each, ast.Call)]
    [call] = [each for each in calls if ast.unparse(each.func).split(".")[-1] == member]
    page = next(page for page in PAGES if (owner or member) in page.names)
    taken = getattr(import_module(page.module), owner or member)
    parameters = inspect.signature(getattr(taken, member) if owner else taken).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        assert {word.arg for word in call.keywords} <= set(parameters)


def test_arguments_have_their_types() -> None:
    """In a table, and not in the call above it."""
    text = reference()["python-api/workqueue.md"]
    assert "| `connections` | `int` | The largest number" in text
    assert "    connections=4,\n" in text


def test_the_map_of_the_schema_is_up_to_date() -> None:
    """Otherwise run: python docs/build_schema_map.py."""
    assert build_schema_map.TARGET.read_text("utf-8") == build_schema_map.readme()


@pytest.mark.parametrize("module", build_sync.MODULES)
def test_the_queue_for_threads_is_that_for_asyncio(module: str) -> None:
    """Otherwise edit txqueue/aio, and run: python docs/build_sync.py."""
    assert (build_sync.TARGET / f"{module}.py").read_text("utf-8") == build_sync.generated(module)


def test_the_sql_reference_has_every_column(migrated_database18: str) -> None:
    """Each in the section of its table."""
    missing = [
        f"{table}.{column}"
        for table, columns in ask(migrated_database18, _COLUMNS)
        for column in columns
        if f"\n| `{column}` | " not in section(SQL, f"`txqueue.{table}`")
    ]
    assert not missing


def test_the_sql_reference_has_every_view(migrated_database18: str) -> None:
    """By its full name."""
    views = [row[0] for row in ask(migrated_database18, _VIEWS)]
    assert views
    assert not [name for name in views if f"| `txqueue.{name}` | " not in section(SQL, "Views")]


def test_the_sql_reference_has_every_function_that_a_role_may_call(
    migrated_database18: str,
) -> None:
    """Functions for applications have a heading, functions for nodes are listed by topic."""
    enqueuing = {row[0] for row in ask(migrated_database18, _FUNCTIONS, "txqueue_enqueue")}
    enqueuing |= {row[0] for row in ask(migrated_database18, _FUNCTIONS, "txqueue_worksets")}
    working = {row[0] for row in ask(migrated_database18, _FUNCTIONS, "txqueue_worker")}
    assert enqueuing < working
    assert all(section(SQL, f"`txqueue.{name}`") for name in enqueuing)
    listed = section(SQL, "Functions for nodes")
    assert not [name for name in working - enqueuing if f"`{name}`" not in listed]


@pytest.mark.parametrize("name", ["enqueue", "enqueue_many", "backlog", "demand"])
def test_the_sql_reference_shows_the_arguments(migrated_database18: str, name: str) -> None:
    """As the server knows them."""
    shown = " ".join(section(SQL, f"`txqueue.{name}`").split()).replace("( ", "(")
    signatures = ask(migrated_database18, _ARGUMENTS, name)
    assert [each for row in signatures if (each := shown_as(name, *row)) not in shown] == []


COMMANDS: Final = {
    each.__name__: each
    for each in (*vars(admin_commands).values(), *admin_commands.ACT_COMMANDS.values())
    if getattr(each, "__module__", "") == admin_commands.__name__
    and hasattr(each, "commandName")
    and not each.__name__.startswith("_")
}


def shown_as(name: str, arguments: str, result: object) -> str:
    """A function as the reference shows it."""
    plain = arguments.replace("DEFAULT NULL::text", "default null")
    for kind in ("integer", "timestamp with time zone", "jsonb", "bigint[]", "boolean"):
        plain = plain.replace(f"DEFAULT NULL::{kind}", "default null")
    for long, short in (
        ("timestamp with time zone", "timestamptz"),
        ("character varying", "varchar"),
    ):
        plain = plain.replace(long, short)
    return f"txqueue.{name}({plain}) returns {result}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_every_command_for_operators(name: str) -> None:
    """With its arguments, those in brackets that may be left out, and its answer."""
    command = COMMANDS[name]
    # Of what every act has, why and act, the page tells below the table.
    arguments = [
        f"[{key.decode()}]" if kind.optional else key.decode()
        for key, kind in command.arguments
        if key != b"why"
    ]
    taken = f"`{' '.join(arguments)}` " if arguments else ""
    answer = ", ".join(key.decode() for key, _ in command.response if key != b"act")
    listed = section(ADMIN, "Over AMP")
    assert f"\n| `{name}` | {taken}| `{answer}` |" in listed


@pytest.mark.parametrize("name", sorted(settings()))
def test_the_settings_have_every_option_of_a_node(name: str) -> None:
    """With its variable."""
    listed = section(SETTINGS, "Of a node")
    assert f"| `--{name} " in listed
    assert f"`TXQUEUE_{name.upper().replace('-', '_')}` |" in listed


def test_the_settings_have_every_column_of_the_table(migrated_database18: str) -> None:
    """Those that are settings."""
    columns = set(dict(ask(migrated_database18, _COLUMNS))["setting"]) - {"only_row", "identity"}
    listed = section(SETTINGS, "Of the whole queue")
    assert not [name for name in columns if f"\n| `{name}` | " not in listed]
