"""Modules and functions that documents and comments name are there."""

import ast
import re
from collections import Counter
from typing import Final

import pytest

from tests.docs.markdown import ROOT

DISTRIBUTIONS: Final = (ROOT / "txqueue", ROOT / "laboratory")
SOURCES: Final = [path for folder in DISTRIBUTIONS for path in sorted(folder.rglob("*.py"))]
ARCHITECTURE: Final = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
SERVER_FUNCTIONS: Final = {"octet_length", "pg_input_is_valid"}
HOPS: Final = re.findall(r"\| \d+ \| `(\w+\.)?(\w+)` \| `([\w/]+\.py)` \|", ARCHITECTURE)
"""The class, if any, the function and the file of each hop of a job's path in Python."""


def dotted_names() -> dict[str, list[str]]:
    """Names such as `policy.backoff` in backticks that begin with a package, with their places."""
    packages = "|".join(path.name for path in (ROOT / "txqueue").iterdir() if path.is_dir())
    pattern = re.compile(rf"`(?:txqueue\.)?((?:{packages})(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?`")
    names: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in pattern.findall(path.read_text()):
            names.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return names


@pytest.mark.parametrize("name", sorted(dotted_names()))
def test_a_name_in_a_docstring_or_comment_is_a_module(name: str) -> None:
    """Or a package, or what is defined in one of these."""
    path = ROOT / "txqueue" / name.replace(".", "/")
    places = dotted_names()[name]
    home = path.parent.with_suffix(".py")
    is_defined = home.exists() and re.search(rf"\b{path.name}\b", home.read_text())
    assert path.is_dir() or path.with_suffix(".py").exists() or is_defined, places


def test_no_two_modules_describe_themselves_alike() -> None:
    """A reader who goes by the first lines of docstrings finds one module."""
    docstrings = (ast.get_docstring(ast.parse(path.read_text())) for path in SOURCES)
    times = Counter(text.partition("\n")[0] for text in docstrings if text)
    assert [line for line, count in times.items() if count > 1] == []


def test_functions_that_comments_of_the_schema_name_are_there() -> None:
    """Or they are PostgreSQL's."""
    texts = {path: path.read_text() for path in (ROOT / "schema" / "functions").rglob("*.sql")}
    stored = {
        name.removesuffix("_0")
        for text in texts.values()
        for name in re.findall(r"(?:function|procedure) txqueue\.(\w+)", text)
    }
    named = {
        (path.name, name)
        for path, text in texts.items()
        for comment in re.findall(r"--.*", text)
        for name in re.findall(r"\b(\w+)\(\)", comment)
    }
    assert {(path, name) for path, name in named if name not in stored | SERVER_FUNCTIONS} == set()


@pytest.mark.parametrize(("cls", "function", "path"), HOPS, ids=lambda part: part.strip("."))
def test_a_hop_of_the_path_of_a_job_is_there(cls: str, function: str, path: str) -> None:
    """The class, and the function in it, are in the file that the table names."""
    text = (ROOT / "txqueue" / path).read_text()
    class_head = rf"^class {cls[:-1]}\b.*?" if cls else "^"
    found = re.search(rf"{class_head}(def|class) {function}\b", text, re.DOTALL | re.MULTILINE)
    assert found, f"{path} has no {cls}{function}"


def test_the_path_of_a_job_has_hops_in_python() -> None:
    """From the application to the completion."""
    assert [(cls + name) for cls, name, _ in HOPS][-1] == "StoredFunctions.complete"
