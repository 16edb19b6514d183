"""The application's files: the version that was imported, and changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from txqueue.system.application_files import SourceWatch, are_changed, imported_application

SHOW = """
import sys, {module}
from txqueue.system.application_files import imported_application
its = imported_application("{module}")
print(its.version, *sorted(path.rpartition("/")[2] for path in its.stamps))
"""


def version(folder: Path, module: str = "shop.work") -> list[str]:
    """Import an application in a process of its own; return its version and its files."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    show = SHOW.format(module=module)
    told = subprocess.run(
        [sys.executable, "-B", "-c", show], env=environment, check=True, capture_output=True
    )
    return told.stdout.decode().split()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """An application: a package, and a module beside it."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "work.py").write_text("import attrs, json, prices\n")
    (package / "unused.py").write_text("")
    (tmp_path / "prices.py").write_text("VAT = 19\n")
    return tmp_path


def test_the_files_of_an_application(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Those that were imported, but neither libraries nor the standard library."""
    first, *files = version(shop)
    assert files == ["__init__.py", "prices.py", "work.py"]
    (shop / "shop" / "unused.py").write_text("new")
    assert version(shop)[0] == first
    (shop / "prices.py").write_text("VAT = 20\n")
    assert version(shop)[0] != first
    other = tmp_path_factory.mktemp("elsewhere")
    (shop / "prices.py").write_text("VAT = 19\n")
    (shop / "shop").rename(other / "shop")
    (shop / "prices.py").rename(other / "prices.py")
    assert version(other)[0] == first


def test_files_that_have_changed_since(tmp_path: Path) -> None:
    """By size, by time, or because they are gone."""
    path = tmp_path / "a.py"
    path.write_text("a = 1")
    stat = path.stat()
    stamps = {str(path): [stat.st_mtime_ns, stat.st_size]}
    assert not are_changed(stamps)
    os.utime(path, ns=(0, 0))
    assert are_changed(stamps)
    path.unlink()
    assert are_changed(stamps)


def test_the_first_answer_stays() -> None:
    """A process that was forked after it has what its template imported."""
    assert imported_application("tests") is imported_application("tests")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some code, and with code of others."""
    for name in ("app.py", "shop/work.py", ".venv/lib/other.py", "env/pyvenv.cfg", "env/x.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def test_each_change_is_noticed_once(folder: Path) -> None:
    """A changed, an added and a removed file."""
    watch = SourceWatch(folder)
    assert len(watch) == 2
    assert watch.changed() == []
    (folder / "app.py").write_text("x = 1")
    (folder / "new.py").write_text("")
    (folder / "shop" / "work.py").unlink()
    names = [path.relative_to(folder).as_posix() for path in watch.changed()]
    assert names == ["app.py", "new.py", "shop/work.py"]
    assert watch.changed() == []


def test_code_of_others_is_not_watched(folder: Path) -> None:
    """Nor files that are not Python."""
    watch = SourceWatch(folder)
    (folder / ".venv" / "lib" / "other.py").write_text("x = 1")
    (folder / "env" / "x.py").write_text("x = 1")
    (folder / "notes.txt").write_text("x = 1")
    assert watch.changed() == []
