"""Views, functions and grants as one readable page: `schema/schema.sql`."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.db.schema_catalog import Catalog, Function, Grant, read_catalog

__all__ = ["schema_picture"]

FUNCTION_FILES: Final = Path(__file__).resolve().parents[2] / "schema" / "functions"

HEAD: Final = """\
The views, functions and grants of the schema txqueue, version {version}, to be read.
Generated from a migrated database by: python -m tests.db.snapshot"""
WIDTH: Final = 120
_STRING: Final = re.compile(r"""('(?:[^']|'')*'|"[^"]*")""")
_TYPE: Final = r"::[a-z]+(?: precision)?(?:\[\])?"
_CAST: Final = re.compile(rf"(\b\d+|\d\)|['\]]|\bnull)(?:{_TYPE})+")
_wrap: Final = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


def schema_picture(dsn: str) -> str:
    """Return the page for a migrated database."""
    catalog = read_catalog(dsn)
    lines = [
        *remark(HEAD.format(version=catalog.version)),
        *_views(catalog),
        *_functions(catalog),
        *_grants(catalog),
    ]
    return "\n".join(lines) + "\n"


def _views(catalog: Catalog) -> Iterator[str]:
    yield from title("Views")
    for view in catalog.views:
        text = f"view {view.name} ({plain(view.columns)});"
        yield from ["", *remark(view.comment), *wrapped(text)]


def _functions(catalog: Catalog) -> Iterator[str]:
    yield from title("Functions")
    yield from remark(
        "Those that others than the owner may execute, by file of schema/functions; behind each the"
        " roles, without their prefix txqueue_. schema/README.md says what each function does."
    )
    topics, roles = _topics(), _roles(catalog.grants)
    called = [its for its in catalog.functions if roles[its.name]]
    for topic, here in groupby(
        sorted(called, key=lambda its: topics[its.name]), lambda its: topics[its.name]
    ):
        yield from ["", f"-- {topic}"]
        for its in here:
            yield from wrapped(f"{_signature(its)};", ", ".join(roles[its.name]))


def _signature(its: Function) -> str:
    """Return a function with its inputs and its result, of which `out` arguments are columns."""
    given, *outputs = re.split(r"(?:^|, )out ", plain(its.arguments))
    result = f"({', '.join(outputs)})" if len(outputs) > 1 else plain(its.result)
    return f"{its.name}({given.replace(' default ', ' = ')}) returns {result}"


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
    """Yield what roles may do but for functions."""
    yield from title("Grants")
    yield from tabulated("role", "privilege", "on")
    everything = sorted([*catalog.tables, *(view.name for view in catalog.views)])
    others = [grant for grant in catalog.grants if grant.kind != "function"]
    for role, held in groupby(others, lambda grant: grant.role):
        yield "--"
        shown = role
        for (privilege, kind), grants in groupby(held, lambda grant: (grant.privilege, grant.kind)):
            names = [grant.name for grant in grants]
            if missing := len(names) > 1 and sorted({*everything} - {*names}):
                further = sorted({*names} - {*everything})
                names = [f"all tables and views but {', '.join(missing)}", *further]
            on = ", ".join(names)
            yield from tabulated(shown, privilege, f"schema {on}" if kind == "schema" else on)
            shown = ""


def plain(sql: str) -> str:
    """Return SQL of the catalogue as a person would write it.

    Keywords are in lower case, and constants have no casts.
    """
    parts = _STRING.split(sql)
    parts[::2] = [part.lower() for part in parts[::2]]
    return _CAST.sub(r"\1", "".join(parts).replace("timestamp with time zone", "timestamptz"))


def title(text: str) -> Iterator[str]:
    """Yield the heading of a section."""
    yield from ["", f"-- {text} ".ljust(WIDTH, "-")]


def remark(text: str) -> Iterator[str]:
    """Yield a comment on lines of its own; the lines of a text that has some stay."""
    for line in text.splitlines():
        yield from _wrap(line, WIDTH, initial_indent="-- ", subsequent_indent="-- ")


def wrapped(code: str, note: str = "") -> Iterator[str]:
    """Yield a statement, broken after commas and before `returns`, and a comment behind it."""
    behind = f"  -- {note}" if note else ""
    kept = re.sub(r"(?<!,) (?!returns )", "\N{NO-BREAK SPACE}", code)
    kept += behind.replace(" ", "\N{NO-BREAK SPACE}")
    for line in _wrap(kept, WIDTH, subsequent_indent="    "):
        yield line.replace("\N{NO-BREAK SPACE}", " ")


def tabulated(first: str, second: str, third: str) -> Iterator[str]:
    """Yield a row of a table in comments; its third cell may take several lines."""
    start = f"-- {first:<18}{second:<11}"
    yield from _wrap(third, WIDTH, initial_indent=start, subsequent_indent=f"--{'':<30}")
