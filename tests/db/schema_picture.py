"""The schema as one readable page: `schema/schema.sql`, which `tests.db.snapshot` writes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.db.schema_catalog import (
    Catalog,
    Column,
    Constraint,
    Function,
    Grant,
    Relation,
    read_catalog,
)
from tests.db.sql_layout import beside, plain, remark, tabulated, title, wrapped

__all__ = ["schema_picture"]

FUNCTION_FILES: Final = Path(__file__).resolve().parents[2] / "schema" / "functions"

HEAD: Final = """\
The schema txqueue, version {version}, to be read; `txqueue migrate --sql` prints the script to run.
Generated from the catalogue of a migrated database by: python -m tests.db.snapshot
N is a lane, 0 to 7. Not shown: the partitions of single days, the tables of single worksets, and
the sequences of single limits. Definitions of functions and views are in schema/functions."""

TABLES: Final = {
    "jobs": ("job", "job_step", "job_signal", "failed_attempt", "unread_job"),
    "unique keys, parents and groups": (
        *("unique_job", "seen_key", "job_parent", "late_end", "late_group", "group_front"),
        "group_hold",
    ),
    "schedules": ("schedule",),
    "worksets": ("workset", "workset_slot", "workset_part", "workset_failed"),
    "nodes": ("node_info", "node_channel", "work_type"),
    "operators": ("setting", "control", "action", "request"),
    "history": ("history_day", "archived", "minute_mark", "minute_counts"),
    "locks": ("key_lock", "duty", "claiming"),
    "migrations": ("migration", "migrating"),
}
"""What the tables are for, and their order on the page."""

INDEX: Final = re.compile(r"^create (unique )?index \S+ on (?:only )?(\S+) (?:using btree )?")


def schema_picture(dsn: str) -> str:
    """Return the page for a migrated database."""
    catalog = read_catalog(dsn)
    lines = [
        *remark(HEAD.format(version=catalog.version)),
        *_types(catalog),
        *_sequences(catalog),
        *_tables(catalog),
        *_views(catalog),
        *_functions(catalog),
        *_grants(catalog),
    ]
    return "\n".join(lines) + "\n"


def _types(catalog: Catalog) -> Iterator[str]:
    yield from title("Types")
    for its in catalog.types:
        definition = plain(its.definition) or f"as ({_fields(catalog, its.name)})"
        yield from ["", *remark(its.comment), *wrapped(f"create type {its.name} {definition};")]


def _sequences(catalog: Catalog) -> Iterator[str]:
    yield from title("Sequences")
    yield from remark(
        "Flags and moments are sequences too: a sequence changes at once and leaves no dead row."
    )
    yield ""
    width = max(len(its.name) for its in catalog.sequences)
    yield from beside(
        [
            (f"create sequence {its.name:<{width}} {its.definition}".rstrip() + ";", its.comment)
            for its in catalog.sequences
        ]
    )


def _tables(catalog: Catalog) -> Iterator[str]:
    tables = {each.name: each for each in catalog.relations if not (each.parent or each.is_view)}
    if wrong := set(tables) ^ {name for names in TABLES.values() for name in names}:
        raise LookupError(f"TABLES of {__name__} lists all tables by topic, but for {wrong}")
    for topic, names in TABLES.items():
        yield from title(f"Tables: {topic}")
        for name in names:
            yield from ["", *_table(catalog, tables[name])]


def _table(catalog: Catalog, table: Relation) -> Iterator[str]:
    """Yield a table, its partitions and their indexes."""
    partitions = list(_partitions(catalog, table.name))
    yield from remark(table.comment)
    yield from _definition(catalog, table)
    if partitions:
        yield from ["", *map(_partition, partitions), ""]
    for owner in [table, *partitions]:
        for index in catalog.indexes:
            if index.relation == owner.name:
                text = INDEX.sub(r"create \1index on \2 ", plain(index.definition))
                yield from wrapped(f"{text};")


def _definition(catalog: Catalog, table: Relation) -> Iterator[str]:
    constraints = [each for each in catalog.constraints if each.relation == table.name]
    columns = _columns(catalog, table.name)
    options = f" with ({table.options})" if table.options else ""
    note = "  -- replica identity full" if table.logs_rows else ""
    start, end = f"create table {table.name} (", f"){options}{_key(table)};{note}"
    if len(columns) <= 1:
        yield start + "".join(_column(each, 0, constraints) for each in columns) + end
        return
    width = 1 + max(len(each.name) for each in columns)
    lines = [(f"    {_column(each, width, constraints)}", each.comment) for each in columns]
    lines += [(f"    {plain(its.definition)}", "") for its in constraints if len(its.columns) != 1]
    yield start
    yield from beside([(f"{code},", comment) for code, comment in lines[:-1]] + lines[-1:])
    yield end


def _column(column: Column, width: int, constraints: Iterable[Constraint]) -> str:
    own = [plain(each.definition) for each in constraints if each.columns == [column.name]]
    # The definition of a key names its column again.
    own = [re.sub(r"^(primary key|unique) \(.*\)$", r"\1", each) for each in own]
    is_implied = "primary key" in own or column.value.endswith("as identity")
    required = "not null" if column.is_required and not is_implied else ""
    words = [plain(column.type), required, plain(column.value), *own]
    return f"{column.name:<{width}} " + " ".join(filter(None, words))


def _partitions(catalog: Catalog, parent: str) -> Iterator[Relation]:
    for each in catalog.relations:
        if each.parent == parent:
            yield each
            yield from _partitions(catalog, each.name)


def _partition(its: Relation) -> str:
    name, bound = _shown(its.name), plain(its.bound)
    if name != its.name:
        bound = "for values in (N)"
    return f"create table {name} partition of {its.parent} {bound}{_key(its)};"


def _key(table: Relation) -> str:
    """Return by what a table is partitioned; ranges are days."""
    days = " /* by day */" if table.key.startswith("RANGE") else ""
    return f" partition by {plain(table.key)}{days}" if table.key else ""


def _views(catalog: Catalog) -> Iterator[str]:
    yield from title("Views")
    for view in catalog.relations:
        if view.is_view:
            text = f"view {view.name} ({_fields(catalog, view.name)});"
            yield from ["", *remark(view.comment), *wrapped(text)]


def _functions(catalog: Catalog) -> Iterator[str]:
    yield from title("Functions")
    yield from remark(
        "By file of schema/functions. Behind a signature: the roles that may execute it, without"
        " their prefix txqueue_. schema/README.md says what each function does."
    )
    topics, roles = _topics(), _roles(catalog.grants)
    for topic in sorted(set(topics.values())):
        yield from ["", f"-- {topic}"]
        here = [its for its in catalog.functions if topics[its.name] == topic]
        for its in here:
            if roles[its.name]:
                yield from wrapped(f"{_signature(its)};", ", ".join(roles[its.name]))
        if others := [_shown(its.name) for its in here if not roles[its.name]]:
            yield from remark(f"only the owner may execute: {', '.join(others)}")


def _signature(its: Function) -> str:
    """Return a function with its inputs and its result, of which `out` arguments are columns."""
    given, *outputs = re.split(r"(?:^|, )out ", plain(its.arguments))
    result = f"({', '.join(outputs)})" if len(outputs) > 1 else plain(its.result)
    return f"{_shown(its.name)}({given.replace(' default ', ' = ')}) returns {result}"


def _topics() -> dict[str, str]:
    """Return the file of each function."""
    defined = re.compile(r"^create or replace function txqueue\.(\w+)", re.MULTILINE)
    return {
        name: path.stem
        for path in FUNCTION_FILES.glob("*.sql")
        for name in defined.findall(path.read_text("utf-8"))
    }


def _roles(grants: Iterable[Grant]) -> defaultdict[str, list[str]]:
    """Return the roles that may execute each function."""
    roles = defaultdict(list)
    for grant in grants:
        if grant.kind == "function":
            roles[grant.name].append(grant.role.removeprefix("txqueue_"))
    return roles


def _grants(catalog: Catalog) -> Iterator[str]:
    yield from title("Grants")
    yield from tabulated("role", "privilege", "on")
    everything = [each.name for each in catalog.relations if not each.parent]
    for role, held in groupby(catalog.grants, lambda grant: grant.role):
        yield "--"
        shown = role
        for (privilege, kind), grants in groupby(held, lambda grant: (grant.privilege, grant.kind)):
            names = [_shown(grant.name) for grant in grants]
            is_all = kind == "relation" and sorted(names) == sorted(everything)
            on = "all tables and views" if is_all else ", ".join(names)
            yield from tabulated(shown, privilege, f"schema {on}" if kind == "schema" else on)
            shown = ""


def _columns(catalog: Catalog, relation: str) -> list[Column]:
    return [each for each in catalog.columns if each.relation == relation]


def _fields(catalog: Catalog, relation: str) -> str:
    """Return the columns of a view or type; their collations are those of the tables."""
    types = [(each.name, plain(each.type)) for each in _columns(catalog, relation)]
    return ", ".join(f"{name} {its_type.partition(' collate ')[0]}" for name, its_type in types)


def _shown(name: str) -> str:
    """Return a name, with N for the lane: only those of lane 0 have been read."""
    return re.sub(r"_0$", "_N", name)
