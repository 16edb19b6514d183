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
        seen, self._seen = self._seen, self._look()
        names = seen.keys() | self._seen.keys()
        return sorted(name for name in names if seen.get(name) != self._seen.get(name))

    def _look(self) -> Mapping[Path, tuple[int, int]]:
        found = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue
            found[path] = (stat.st_mtime_ns, stat.st_size)
            if len(found) == _MOST:
                break
        return found

    def _files(self) -> Iterator[Path]:
        for place, folders, names in os.walk(self._folder):
            folders[:] = sorted(each for each in folders if _is_own(Path(place), each))
            yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def _is_own(place: Path, name: str) -> bool:
    """Whether a folder may have the application's code; a virtual environment has not."""
    is_hidden = name.startswith(".") or name in _SKIPPED
    return not is_hidden and not (place / name / "pyvenv.cfg").exists()
