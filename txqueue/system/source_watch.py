"""Notices changes of Python files in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["SourceWatch"]

# Folders with other people's code, and the most files to look at.
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_MOST: Final = 10_000


class SourceWatch:
    """The Python files below a folder, as they were at the last look.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def __len__(self) -> int:
        """Return how many files there are."""
        return len(self._seen)

    def changed(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last call."""
        previous, self._seen = self._seen, self._look()
        names = previous.keys() | self._seen.keys()
        return sorted(name for name in names if previous.get(name) != self._seen.get(name))

    def _look(self) -> Mapping[Path, tuple[int, int]]:
        stamps = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue
            stamps[path] = (stat.st_mtime_ns, stat.st_size)
            if len(stamps) == _MOST:
                break
        return stamps

    def _files(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self._folder):
            folders[:] = sorted(child for child in folders if _is_own(Path(folder), child))
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _is_own(folder: Path, name: str) -> bool:
    """Whether a folder may have the application's code; a virtual environment has not."""
    is_hidden = name.startswith(".") or name in _SKIPPED
    return not is_hidden and not (folder / name / "pyvenv.cfg").exists()
