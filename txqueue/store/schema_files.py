"""The SQL files of the package, with the name of the schema put in."""

import re
from importlib.resources import files

from attrs import frozen

from txqueue.errors import ConfigurationError

__all__ = ["Migration", "checked_name", "functions", "migrations"]

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_SCHEMA, _LANE, _EACH_LANE = "@schema@", "@lane@", "@each_lane@"
_STATEMENT_OF_LANES = re.compile(rf".*{_EACH_LANE}[^;]*;\n")
_LANES = range(8)
# The first line of a migration with which older code can work.
_SERVES = re.compile(r"-- serves: (\d+)\n")


@frozen
class Migration:
    """One numbered step of the schema.

    Attributes:
        number: Its number.
        name: What it is about.
        sql: What it runs.
        serves: The oldest version that code may be made for to work with it; None for this.
    """

    number: int
    name: str
    sql: str
    serves: int | None = None


def checked_name(schema: str) -> str:
    """Return the name of a schema if it is safe to stand in SQL.

    Raises:
        ConfigurationError: When it is not a plain lower-case identifier.
    """
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigurationError(
            f"the schema name {schema!r} is not a plain identifier",
            "use lower-case letters, digits and _, at most 41, not starting with pg_",
        )
    return schema


def migrations(schema: str) -> list[Migration]:
    """Return all migrations in order."""
    found = []
    for name, sql in _sql_files("migrations", schema):
        number, _, title = name.partition("_")
        serves = _SERVES.match(sql)
        found.append(Migration(int(number), title, sql, int(serves[1]) if serves else None))
    return found


def functions(schema: str) -> list[tuple[str, str]]:
    """Return the name and text of every stored function.

    A file that names a lane makes one function for each; a statement that names each lane, from its
    line's beginning, becomes one for each.
    """
    return [(name, _for_each_lane(sql)) for name, sql in _sql_files("functions", schema)]


def _for_each_lane(sql: str) -> str:
    sql = _STATEMENT_OF_LANES.sub(lambda found: _repeated(found[0], _EACH_LANE), sql)
    return _repeated(sql, _LANE) if _LANE in sql else sql


def _repeated(sql: str, mark: str) -> str:
    return "".join(sql.replace(mark, str(lane)) for lane in _LANES)


def _sql_files(folder: str, schema: str) -> list[tuple[str, str]]:
    # Functions lie in folders by topic; migrations in one.
    entries = list(files("txqueue.schema").joinpath(folder).iterdir())
    topics = [entry for entry in entries if entry.is_dir()]
    entries += [entry for topic in topics for entry in topic.iterdir()]
    return [
        (entry.name.removesuffix(".sql"), entry.read_text("utf-8").replace(_SCHEMA, schema))
        for entry in sorted(entries, key=lambda entry: entry.name)
        if entry.name.endswith(".sql")
    ]
