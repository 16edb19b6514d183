"""The types of the public names, as type checkers of applications see them."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import txqueue

NEEDED = {"typed_application.py": (), "typed_adapters.py": ("psycopg", "sqlalchemy", "django")}
"""The files of applications, and the packages that they need."""

PROGRAMS = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*/after"))


@pytest.mark.parametrize("name", NEEDED)
def test_pyright_accepts_what_the_documentation_shows(tmp_path: Path, name: str) -> None:
    """In its strict mode; the lint of this project has mypy check the same file."""
    for package in NEEDED[name]:
        pytest.importorskip(package)
    check_strictly(tmp_path, [Path(__file__).with_name(name)])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
def test_pyright_accepts_the_moved_programs(tmp_path: Path, program: Path) -> None:
    """All but the bridges, as what these lead from has no types; mypy checks the same files."""
    pytest.importorskip("psycopg")
    check_strictly(tmp_path, [path for path in program.glob("*.py") if "bridge" not in path.name])


def check_strictly(folder: Path, sources: list[Path]) -> None:
    """Have pyright check modules of an application."""
    pytest.importorskip("pyright")
    settings = {
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": True,
        "enableTypeIgnoreComments": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    for source in sources:
        (folder / source.name).write_text(source.read_text())
    found = subprocess.run(
        [sys.executable, "-m", "pyright", "--project", folder, "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("package", ["txqueue", "txqueue.testing", "txqueue.admin"])
def test_every_exported_name_is_there(package: str) -> None:
    """Also one that is imported when it is first used."""
    module = import_module(package)
    assert not [name for name in module.__all__ if not hasattr(module, name)]


def test_every_public_name_comes_from_the_package_itself() -> None:
    """The reference imports nothing from a module that may change with any release."""
    reference = Path(txqueue.__file__).parents[1] / "docs" / "reference" / "python-api"
    texts = [page.read_text() for page in reference.iterdir()]
    named = re.compile(r"^These names are imported from `(\S+)`\.$", re.MULTILINE)
    modules = {named.findall(text)[0] for text in texts}
    public = {
        "adapters",
        "admin",
        "aio",
        "django",
        "embedded",
        "errors",
        "sentry",
        "sync",
        "testing",
    }
    assert modules <= {"txqueue", *(f"txqueue.{name}" for name in public)}
