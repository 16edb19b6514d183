"""Changes of Python files, as a developer makes them."""

from pathlib import Path

import pytest

from txqueue.system.application_files import SourceWatch


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
