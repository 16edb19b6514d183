"""Tells how many processors this process may use, which may be fewer than the machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Final

__all__ = ["usable_cpus"]

# The files of a quota and its period, of cgroups v2 and v1.
_QUOTAS: Final = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def usable_cpus(root: Path = Path("/")) -> int:
    """Return how many processors the affinity and the quotas of the cgroups allow, at least one.

    Args:
        root: The folder that has ``proc`` and ``sys``.
    """
    return max(1, min([_allowed(), *map(ceil, _quotas(root))]))


def _allowed() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        # This system has no affinity.
        return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    for folder in _folders(root):
        for names in _QUOTAS:
            # Without a quota, its file has the word max or a number below 0, or is not there.
            with suppress(OSError, ValueError):
                quota, period = " ".join((folder / name).read_text() for name in names).split()
                if int(quota) > 0:
                    yield int(quota) / int(period)


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's cgroups and their ancestors, whose quotas hold too.

    In a container, the paths may be those of the host; the mount then has the container's files.
    """
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        folder = mount / path.lstrip("/")
        if not controllers or "cpu" in controllers.split(","):
            yield from (each for each in (folder, *folder.parents) if each.is_relative_to(mount))
