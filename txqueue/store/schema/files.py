"""The SQL files of the package, adapted to a schema's name; which queue and version a
database has.

A file has the functions and views of a topic. Each is valid SQL as it stands, for a schema named
``txqueue`` and for lane 0. Four rules, here and nowhere else, turn it into the SQL that is sent:

- The schema: ``txqueue`` before ``.`` ``,`` ``_`` or ``'`` becomes the schema's name. In messages
  a space or a colon follows it, and it stays.
- The settings: a function looks names up in its own schema, and is not compiled. One that is marked
  as inlined has no settings, which would keep the planner from that.
- The lanes: a function whose name ends in ``_0`` is repeated for lanes 0 to 7, and so is a
  branch ``when 0 then ...;`` on lines of its own. In each copy the lane's number replaces the 0 of
  ``when 0`` and of every name that ends in ``_0``. Each lane has its own cached plan.
- The comments: those of ``tables.sql`` above a table or type, and beside or below a sequence or
  column, become comments in the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from txqueue.errors import ConfigurationError, SchemaMismatch

# Not by importlib.resources, which takes longer to import than most commands to ask.
_FOLDER = Path(__file__).parents[2] / "schema"

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_SCHEMA = re.compile(r"\btxqueue(?=[.,_'])")
_FUNCTION_OF_LANE = re.compile(r"^create or replace function txqueue\.\w+_0\(", re.MULTILINE)
_DEFINITION = re.compile(
    r"^(?:--.*\n)*create or replace (?:function|view) txqueue\.(\w+?)(?:_0)?\b", re.MULTILINE
)
_LANGUAGE = re.compile(r"^language (?!.*-- inlined$).*\n", re.MULTILINE)
_SETTINGS = "set search_path = txqueue, pg_temp\nset jit = off\n"
_BRANCH_OF_LANE = re.compile(r"^ *when 0 then [^;]*;\n", re.MULTILINE)
_LANE = re.compile(r"(?<=_)0\b|(?<=\bwhen )0\b")
_LANES = range(8)
_DESCRIBED = re.compile(r"^((?:-- .*\n)+)create (?:unlogged )?(table|type) (\S+)", re.MULTILINE)
_COLUMNS = re.compile(r"^create (?:unlogged )?table (\S+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^    (\S+) .*?((?:\n? +-- .*)+)$", re.MULTILINE)
_SEQUENCE = re.compile(r"^create sequence ([\w.]+).*?((?:\n? +-- .*)+)$", re.MULTILINE)
_REMARK = re.compile(r"\s*-- ")
# The first line of a migration that also serves older code.
_SERVES = re.compile(r"-- serves: (\d+)\n")


@frozen
class Migration:
    """One numbered step of the schema.

    Attributes:
        number: The step's number.
        name: The step's name.
        sql: The SQL to run.
        serves: The oldest schema version whose code works with the schema after this step; None
            if only this version's code does.
    """

    number: int
    name: str
    sql: str
    serves: int | None = None


def checked_name(schema: str) -> str:
    """Return a schema's name if it is safe to use in SQL.

    Raises:
        ConfigurationError: When it is not a plain lower-case identifier.
    """
    # Programs may pass other types.
    if not _NAME.fullmatch(str(schema)) or schema.startswith("pg_"):
        raise ConfigurationError(
            f"the schema name {schema!r} is not a plain identifier",
            "use lower-case letters, digits and _, at most 41, not starting with pg_",
        )
    return schema


def migrations(schema: str) -> list[Migration]:
    """Return the steps for schemas from `OLDEST` on, in order."""
    steps = []
    for name, sql in _migration_files(schema):
        number, _, title = name.partition("_")
        serves = _SERVES.match(sql)
        steps.append(Migration(int(number), title, sql, int(serves[1]) if serves else None))
    return steps


def tables(schema: str) -> Migration:
    """Return the step that makes, in an empty schema, what the others make of an older one."""
    sql = _FOLDER.joinpath("tables.sql").read_text("utf-8")
    serves = max(step.serves or step.number for step in migrations(schema))
    return Migration(latest_version(), "tables", _sent(sql + _comments(sql), schema), serves)


def _comments(sql: str) -> str:
    """Return the statements that store the comments of tables, types, sequences and columns."""
    found = [(f"{kind} {name}", note) for note, kind, name in _DESCRIBED.findall(sql)]
    found += [(f"sequence {name}", note) for name, note in _SEQUENCE.findall(sql)]
    for table, columns in _COLUMNS.findall(sql):
        found += [(f"column {table}.{name}", note) for name, note in _COLUMN.findall(columns)]
    return "".join(f"comment on {what} is '{_quoted(note)}';\n" for what, note in found)


def _quoted(note: str) -> str:
    return " ".join(line.strip() for line in _REMARK.split(note)).strip().replace("'", "''")


def functions(schema: str) -> list[tuple[str, str]]:
    """Return the name, without the lane, and the SQL of each function and view."""
    return [(name, _sent(_with_settings(sql), schema)) for name, sql in written_functions()]


def written_functions() -> list[tuple[str, str]]:
    """Return each function and view as its file has it, with the comment before it."""
    texts = [path.read_text("utf-8") for path in sorted(_FOLDER.glob("functions/*.sql"))]
    return sorted((definition for text in texts for definition in _cut(text)), key=itemgetter(0))


def _cut(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each definition in a file, and its text up to the next one."""
    found = list(_DEFINITION.finditer(text))
    ends = [*(definition.start() for definition in found[1:]), len(text)]
    for definition, end in zip(found, ends, strict=True):
        yield definition[1], text[definition.start() : end].rstrip() + "\n"


def function_text(topic: str, name: str) -> str:
    """Return the definition of a stored function, as its topic's file has it."""
    text = _FOLDER.joinpath("functions", f"{topic}.sql").read_text("utf-8")
    return text.partition(f"function txqueue.{name}(")[2].partition("\nend $$;")[0]


def _with_settings(sql: str) -> str:
    if "create or replace view" in sql:
        return sql
    return _LANGUAGE.sub(lambda language: language[0] + _SETTINGS, sql, count=1)


def needed_objects() -> list[str]:
    """Return the tables, columns, indexes and rows of a schema of this release, each as a line."""
    return _FOLDER.joinpath("objects.txt").read_text("utf-8").splitlines()


def newest_migration() -> int:
    """Return the number of the last migration; no file is read for it."""
    return max(int(path.name.partition("_")[0]) for path in _FOLDER.glob("migrations/*.sql"))


def _migration_files(schema: str) -> Iterator[tuple[str, str]]:
    for path in sorted(_FOLDER.glob("migrations/*.sql")):
        yield path.stem, _sent(path.read_text("utf-8"), schema)


def _sent(sql: str, schema: str) -> str:
    if _FUNCTION_OF_LANE.search(sql):
        sql = _for_each_lane(sql)
    else:
        sql = _BRANCH_OF_LANE.sub(lambda branch: _for_each_lane(branch[0]), sql)
    return _SCHEMA.sub(schema, sql)


def _for_each_lane(sql: str) -> str:
    return "".join(_LANE.sub(str(lane), sql) for lane in _LANES)


OLDEST: Final = 29
"""The oldest version that the steps upgrade."""

FIND: Final = """
    select coalesce(max(number), 0) as number,
           coalesce(max(coalesce(serves, number)), 0) as serves
      from {schema}.migration"""
"""Queries a schema's version."""


@frozen
class SchemaVersion:
    """A schema's version, and the code that it serves.

    Attributes:
        number: The number of the last migration.
        serves: The oldest version whose code works with the schema.
    """

    number: int
    serves: int


def latest_version() -> int:
    """Return the schema version that this code is made for."""
    return newest_migration()


def check_version(version: SchemaVersion | None, schema: str) -> None:
    """Compare a schema's version (None if it is missing) with the one this code is made for.

    A newer version is accepted if it still serves this code.

    Raises:
        SchemaMismatch: When this code cannot work with the schema.
    """
    if version is None:
        raise SchemaMismatch(
            f"the schema {schema!r} is not in this database", "run: txqueue migrate"
        )
    latest = latest_version()
    if version.serves > latest:
        raise SchemaMismatch(
            f"the schema {schema!r} has version {version.number}, newer than the {latest} this code"
            f" knows, and serves none older than {version.serves}",
            "install the newer txqueue",
        )
    if version.number < latest:
        raise SchemaMismatch(
            f"the schema {schema!r} has version {version.number}, older than the {latest} this code"
            " needs",
            "run: txqueue migrate",
        )


IDENTITY = (
    "select {schema}.identity()::text as identity, current_database() as database,"
    " host(inet_server_addr()) as host, current_setting('port') as port,"
    " case when pg_has_role(current_user, 'pg_read_all_settings', 'usage')"
    " then current_setting('unix_socket_directories') end as folders"
)
"""The query of a queue's identity; see `QueueIdentity.of_row`."""


@frozen
class QueueIdentity:
    """Which queue a session sees.

    Attributes:
        identity: The queue's identity; equal for all sessions of the same queue, whatever its DSN.
        place: The database, its server and the schema, for people.
    """

    identity: str
    place: str

    @classmethod
    def of_row(cls, row: Mapping[str, Any], schema: str) -> QueueIdentity:
        """Return what a row of `IDENTITY` says."""
        place = f"the database {row['database']} at {_server(row)}, schema {schema}"
        return cls(row["identity"], place)


def _server(row: Mapping[str, Any]) -> str:
    """Return the address of a server; which folders it has, not every role may read."""
    if row["host"]:
        return f"{row['host']}:{row['port']}"
    folders = f" in {row['folders']}" if row["folders"] else ""
    return f"a unix socket{folders}, port {row['port']}"
