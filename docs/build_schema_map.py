"""Writes the list of stored functions in schema/README.md from the SQL files and their callers.

    python docs/build_schema_map.py

A test compares the file with what this makes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from txqueue.store.schema.files import written_functions

__all__ = ["TARGET", "readme"]

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "schema" / "README.md"
FUNCTIONS: Final = ROOT / "schema" / "functions"
PACKAGE: Final = ROOT / "txqueue"
MARK: Final = "<!-- Made by docs/build_schema_map.py: what follows is generated. -->\n"

# Measurements and faults on purpose say nothing of the design; values send no statements.
NOT_CALLERS: Final = frozenset({"demo", "model", "policy"})
# Of more modules than these only the folders are named.
MOST_CALLERS: Final = 4


@frozen
class Stored:
    """A function, a family of one for each lane, or a view.

    Attributes:
        name: Its name, without the lane.
        topic: The file that it stands in.
        text: The SQL without comments.
        purpose: The first sentence of its leading comment.
    """

    name: str
    topic: str
    text: str
    purpose: str


def readme() -> str:
    """Return what schema/README.md should hold: the hand-written part, then the list."""
    written = TARGET.read_text("utf-8").partition(MARK)[0]
    return written + MARK + "".join(_chapters(_stored()))


def _stored() -> list[Stored]:
    topics = topic_of_functions()
    return [_read(name, topics[name], text) for name, text in written_functions()]


def topic_of_functions() -> dict[str, str]:
    """Return the topic of each function and view, which is the name of its file."""
    defined = re.compile(
        r"^create or replace (?:function|view) txqueue\.(\w+?)(?:_0)?\b", re.MULTILINE
    )
    return {
        name: path.stem
        for path in FUNCTIONS.glob("*.sql")
        for name in defined.findall(path.read_text("utf-8"))
    }


def _read(name: str, topic: str, text: str) -> Stored:
    comment = re.match(r"(?:--.*\n)*", text)
    said = " ".join(re.findall(r"-- ?(.*)", comment[0])) if comment else ""
    code = re.sub(r"--.*", "", text)
    return Stored(name, topic, code, _first_sentence(said))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;:?]) ", text, maxsplit=1)[0].rstrip(".;:").replace("|", "\\|")


def _chapters(stored: list[Stored]) -> Iterator[str]:
    programs = {path: _texts(path) for path in _programs()}
    for topic in sorted({each.topic for each in stored}):
        yield f"\n### {topic}\n\n| function or view | what it does | called by |\n|---|---|---|\n"
        for each in stored:
            if each.topic == topic:
                callers = [*_python_callers(each.name, programs), *_sql_callers(each, stored)]
                called_by = ", ".join(callers) or "SQL clients"
                yield f"| `{each.name}` | {each.purpose} | {called_by} |\n"


def _programs() -> list[Path]:
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in NOT_CALLERS
    ]


def _python_callers(name: str, programs: dict[Path, list[str]]) -> list[str]:
    """Name the modules that send a statement with this function or view; their folders, if many."""
    in_sql = re.compile(rf"(?:^|[}}@])\.{name}\b")
    in_store = re.compile(rf"(?:select )?{name}(?:$|\()")
    callers = []
    for path, texts in programs.items():
        # A call by name alone: functions.py and its like put the statement together.
        is_store = path.is_relative_to(PACKAGE / "store")
        if any(in_sql.search(text) or (is_store and in_store.match(text)) for text in texts):
            callers.append(path.relative_to(PACKAGE))
    if len(callers) > MOST_CALLERS:
        callers = sorted({path.parent for path in callers})
    return [f"`{path}`" for path in callers]


def _texts(path: Path) -> list[str]:
    """Return the string literals of a module, without docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    literals = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value for node in literals if isinstance(node.value, str) and id(node) not in said]


def _sql_callers(callee: Stored, stored: list[Stored]) -> Iterator[str]:
    """Name the other files that use this one."""
    is_view = re.search(r"\bview txqueue\.", callee.text) is not None
    start, end = (r"\b(?:from|join) (?:txqueue\.)?", r"\b") if is_view else (r"\b", r"\(")
    used = re.compile(rf"{start}{callee.name}(_0)?{end}")
    for each in stored:
        if each.name != callee.name and used.search(each.text):
            yield f"`{each.name}`"


if __name__ == "__main__":
    TARGET.write_text(readme(), "utf-8")
    print(f"wrote {TARGET}")
