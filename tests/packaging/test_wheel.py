"""What users install: a wheel and a source distribution that work far from this tree."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SQL: Final = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "schema").rglob("*.sql"))

pytestmark = pytest.mark.slow

READ_THE_SCHEMA: Final = """
from importlib.resources import files
import txqueue
print(txqueue.__file__ or list(txqueue.__path__)[0])
def read(place, name):
    for entry in place.iterdir():
        if entry.is_dir():
            read(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".sql") and name.count("/"):
            print(f"{name}/{entry.name}", len(entry.read_text("utf-8")))
read(files("txqueue.schema"), "schema")
"""


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="session")
def elsewhere(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, which sees our dependencies but not our tree.

    A path in a `.pth` file adds that folder and not the `.pth` files in it, so the editable
    install that runs these tests stays unseen.
    """
    place = tmp_path_factory.mktemp("elsewhere")
    venv.create(place, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = place / "lib" / version / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = str(next(distributions.glob("*.whl")))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(place))
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel)
    return place


def run(*command: str, folder: Path | None = None) -> str:
    """Run a command without this process's environment.

    Args:
        command: The command.
        folder: Where to run it.

    Returns:
        What it printed.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_holds_what_it_should(distributions: Path) -> None:
    """The package, every SQL file and the plugin, and nothing of Twisted's own."""
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"txqueue/{path}" for path in SQL} <= names
    ours = {name for name in names if not name.startswith(("txqueue/", "txqueue-"))}
    assert ours == {"twisted/plugins/txqueue_plugin.py"}


def test_the_source_distribution_holds_what_it_should(distributions: Path) -> None:
    """All that the wheel is built from; it was built from it."""
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {f"txqueue/{path}" for path in SQL} | {"twisted/plugins/txqueue_plugin.py"}
    assert needed | {"setup.cfg", "pyproject.toml", "LICENSE"} <= names
    assert "twisted/__init__.py" not in names
    assert "twisted/plugins/__init__.py" not in names


def test_the_schema_is_readable(elsewhere: Path, tmp_path: Path) -> None:
    """The SQL comes out of the installed package, not out of this tree."""
    python = str(elsewhere / "bin" / "python")
    where, *entries = run(python, "-c", READ_THE_SCHEMA, folder=tmp_path).splitlines()
    assert where.startswith(str(elsewhere))
    sizes = dict(line.rsplit(" ", 1) for line in entries)
    assert [path for path in SQL if path.count("/") > 1] == sorted(sizes)
    assert all(int(size) > 0 for size in sizes.values())


def test_twistd_lists_the_plugin(elsewhere: Path, tmp_path: Path) -> None:
    """Twisted finds the plugin of the installed package."""
    twistd = "from twisted.scripts.twistd import run; run()"
    python = str(elsewhere / "bin" / "python")
    commands = run(python, "-c", twistd, "--help", folder=tmp_path).partition("Commands:")[2]
    assert "txqueue" in commands.split()


@pytest.mark.skipif(
    not any((ROOT / "txqueue" / name).exists() for name in ("cli.py", "cli/__init__.py")),
    reason="there is no txqueue.cli yet",
)
def test_the_command_runs(elsewhere: Path, tmp_path: Path) -> None:
    """The installed command starts from an empty folder."""
    assert "Usage" in run(str(elsewhere / "bin" / "txqueue"), "--help", folder=tmp_path)
