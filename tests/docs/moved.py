"""What the tests of moved programs share: a folder with the program, and waits for its outcome."""

import time
from pathlib import Path
from typing import Final

from tests.docs.markdown import ROOT, blocks
from tests.docs.session import PATIENCE
from tests.docs.test_examples import run_sql

EXAMPLES: Final = ROOT / "docs" / "examples"
LEDGER: Final = "create table ledger (id int generated always as identity, line text)"


def await_true(dsn: str, sql: str) -> None:
    """Ask the database until the answer is yes."""
    deadline = time.monotonic() + PATIENCE
    while run_sql(dsn, sql) != [(True,)]:
        assert time.monotonic() < deadline, (sql, run_sql(dsn, "select line from ledger"))
        time.sleep(0.1)


def lines_of(dsn: str) -> list[str]:
    """What the program has written, sorted."""
    return sorted(line for (line,) in run_sql(dsn, "select line from ledger"))


def unknown_snippets(page: Path, programs: Path) -> list[str]:
    """The Python of a page that is no part of the programs it is about."""
    known = "\n".join(path.read_text("utf-8") for path in programs.rglob("*.py"))
    shown = [each for each in blocks(page) if (each.language, each.action) == ("python", "")]
    return [block.text for block in shown if block.text not in known]
