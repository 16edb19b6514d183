"""The types of the public names, as type checkers of applications see them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import txqueue

NEEDED = {"typed_application.py": (), "typed_adapters.py": ("psycopg", "sqlalchemy", "django")}
"""The files of applications, and the packages that they need."""


@pytest.mark.parametrize("name", NEEDED)
def test_pyright_accepts_what_the_documentation_shows(tmp_path: Path, name: str) -> None:
    """In its strict mode; the lint of this project has mypy check the same file."""
    for package in ("pyright", *NEEDED[name]):
        pytest.importorskip(package)
    settings = {
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": True,
        "enableTypeIgnoreComments": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    (tmp_path / "application.py").write_text(Path(__file__).with_name(name).read_text())
    found = subprocess.run(
        [sys.executable, "-m", "pyright", "--project", tmp_path, "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def test_every_public_name_comes_from_the_package_itself() -> None:
    """The reference imports nothing from a module that may change with any release."""
    reference = Path(txqueue.__file__).parents[1] / "docs" / "reference" / "python-api.md"
    lines = reference.read_text().splitlines()
    modules = {line.split()[1] for line in lines if line.startswith("from txqueue")}
    public = {"adapters", "admin", "embedded", "errors"}
    assert modules <= {"txqueue", *(f"txqueue.{name}" for name in public)}
