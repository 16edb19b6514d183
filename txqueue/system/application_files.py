"""The application's files: the version that a process has imported, and changes of Python files."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from attrs import frozen

Stamps = Mapping[str, Sequence[int]]
"""Paths of files, with the time of the last change, in nanoseconds, and the size of each."""

# The most files, so that neither an import nor a look at them takes long.
_MOST: Final = 5_000
_NOT_ITS_OWN: Final = frozenset({"__main__", "txqueue", "twisted"})
# Django imports its apps by themselves, so that another module prepares a node for a project.
_ENTRIES: Final = {"txqueue.django": "txqueue.django.project"}
_LIBRARIES: Final = ("site-packages", "dist-packages")


@frozen
class ApplicationFiles:
    """The Python files of an application, as they were after the import.

    Attributes:
        version: A hash of their contents; the same on each host.
        stamps: When they were changed last, and their sizes.
    """

    version: str
    stamps: Stamps


def import_app(name: str) -> None:
    """Import a module that ``--app`` names.

    Raises:
        ImportError: When there is no such module; any other exception when the import fails.
    """
    importlib.import_module(_ENTRIES.get(name, name))


@cache
def imported_application(*modules: str) -> ApplicationFiles:
    """Return the files from which this process has imported an application, at the first call.

    They are those of the named modules' packages, and all that are neither of the standard library
    nor installed. A process that was forked after the first call returns the same.

    Args:
        modules: The modules that were imported.
    """
    digest, stamps = hashlib.sha256(), {}
    for name, path in sorted(_own_files(modules)):
        try:
            stamps[path], content = _stamp(path), Path(path).read_bytes()
        except OSError:
            continue
        digest.update(f"{name} {len(content)} ".encode() + content)
        if len(stamps) == _MOST:
            break
    return ApplicationFiles(digest.hexdigest()[:8], stamps)


def are_changed(stamps: Stamps) -> bool:
    """Tell whether one of the files was changed or removed since."""
    return any(not _is_same(path, stamp) for path, stamp in stamps.items())


def _is_same(path: str, stamp: Sequence[int]) -> bool:
    try:
        return list(_stamp(path)) == list(stamp)
    except OSError:
        return False


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _own_files(modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and paths of the application's modules."""
    roots = {name.partition(".")[0] for name in modules}
    standard = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
    for name, module in list(sys.modules.items()):
        path, package = getattr(module, "__file__", None), name.partition(".")[0]
        if not isinstance(path, str) or package in _NOT_ITS_OWN - roots:
            continue
        is_foreign = path.startswith(standard) or any(library in path for library in _LIBRARIES)
        if package in roots or not is_foreign:
            yield name, os.path.abspath(path)


# Folders with other people's code, and the most files to look at.
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_MOST_WATCHED: Final = 10_000


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
            if len(stamps) == _MOST_WATCHED:
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
