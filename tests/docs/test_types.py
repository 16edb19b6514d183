"""The examples of the pages are typed: mypy and pyright accept them, in their strict modes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.markdown import DOCUMENTS, ROOT, blocks

# Django's models have no types without a plugin.
LEFT_OUT: Final = {ROOT / "docs" / folder / "django.md" for folder in ("howto", "tutorial")}
# What Twisted, asyncpg and txpostgres leave untyped is no mistake of an application.
MYPY: Final = ("--strict", "--allow-untyped-calls", "--ignore-missing-imports")
PYRIGHT: Final = {
    "typeCheckingMode": "strict",
    "enableTypeIgnoreComments": False,
    "reportMissingTypeStubs": False,
    "reportUnknownArgumentType": False,
    "reportUnknownMemberType": False,
    "reportUnknownVariableType": False,
}


def examples(page: Path) -> dict[str, str]:
    """The Python files of a page, by name, with what is appended to them."""
    files: dict[str, str] = {}
    for each in blocks(page):
        if each.name.endswith(".py"):
            files[each.name] = files.get(each.name, "") + f"\n{each.text}"
    return files


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Folders with the files of all pages, those of a page together, as few as names allow.

    Pages build on the files of the README, so each folder has them.
    """
    readme, *pages = DOCUMENTS
    made: list[dict[str, str]] = []
    for files in (examples(page) for page in pages if page not in LEFT_OUT):
        fitting = (each for each in made if not files.keys() & each.keys())
        if (folder := next(fitting, None)) is None:
            made.append(folder := examples(readme))
        folder |= files
    return [saved(tmp_path / str(number), files) for number, files in enumerate(made)]


def saved(folder: Path, files: dict[str, str]) -> Path:
    """Save files in a folder."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def check(folder: Path, *command: str) -> None:
    """Run a type checker in a folder."""
    found = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.slow("docs")
def test_mypy_accepts_the_examples(folders: list[Path], tmp_path: Path) -> None:
    """Each page's with their annotations, as a user copies them."""
    for folder in folders:
        check(folder, "mypy", *MYPY, f"--cache-dir={tmp_path}", ".")


@pytest.mark.slow("docs")
def test_pyright_accepts_the_examples(folders: list[Path], tmp_path: Path) -> None:
    """The same files."""
    for package in ("pyright", "psycopg", "sqlalchemy", "asyncpg"):
        pytest.importorskip(package)
    roots = [{"root": folder.name} for folder in folders]
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({**PYRIGHT, "executionEnvironments": roots})
    )
    check(tmp_path, "pyright", "--pythonpath", sys.executable)
