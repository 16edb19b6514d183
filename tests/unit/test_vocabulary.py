"""One word for one thing: names that no second thing has; `docs/reference/glossary.md` has them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "txqueue"
SCHEMA: Final = ROOT / "schema"
MODULES: Final = sorted(
    path for folder in (PACKAGE, ROOT / "laboratory") for path in folder.rglob("*.py")
)
SQL: Final = sorted((SCHEMA / "functions").rglob("*.sql"))

SHARED_CLASSES: Final[dict[str, str]] = {
    "Queue": "aio.Queue and sync.Queue are one thing, for two kinds of programs",
}
"""Classes that may have one name, and why."""


def definitions(path: Path) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the classes, functions and methods of a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_protocol(node: ast.ClassDef) -> bool:
    """Tell whether a class is a protocol: it names what another class is used as."""
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def sql_names() -> Iterator[tuple[str, str]]:
    """Yield where a function, view, table or sequence is defined, and its name."""
    defined = re.compile(r"^create (?:or replace )?(?:function|view) txqueue\.(\w+)", re.MULTILINE)
    for path in SQL:
        for name in defined.findall(path.read_text("utf-8")):
            yield path.relative_to(ROOT).as_posix(), name


def test_no_two_classes_share_a_name() -> None:
    """But for private ones, and protocols: a service declares what it uses of a collaborator."""
    found = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not (
                node.name.startswith("_") or is_protocol(node)
            ):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    shared = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert set(shared) <= set(SHARED_CLASSES), shared


def test_no_two_modules_of_a_package_differ_by_an_ending() -> None:
    """``pool`` and ``pools`` side by side tell nothing apart."""
    names = {path.relative_to(ROOT).as_posix() for path in MODULES}
    near = {
        (name, name.removesuffix(".py") + ending + ".py")
        for name in names
        for ending in ("s", "er", "ed", "ing", "es")
    }
    assert {pair for pair in near if pair[1] in names} == set()


def test_the_glossary_is_in_order_and_names_what_there_is() -> None:
    """Each term once, by the alphabet; a path it gives exists, a function it calls is defined."""
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| .* \| ([^|]*) \|$", text, re.MULTILINE)[1:]
    terms = [term for term, _ in rows]
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.casefold)
    where = " ".join(place for _, place in rows)
    paths = re.findall(r"`((?:\w+/)+\w+\.py)`", where)
    assert [path for path in paths if not (PACKAGE / path).exists()] == []
    functions = {name for _, name in sql_names()} | {
        node.name for path in MODULES for node in definitions(path)
    }
    calls = re.findall(r"`(\w+)\(\)`", where)
    assert [name for name in calls if name not in functions] == []
