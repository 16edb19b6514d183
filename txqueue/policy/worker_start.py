"""Decides how a node starts its worker processes: forked from a template, or one by one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from attrs import frozen

from txqueue.errors import ConfigurationError

WORKER_STARTS: Final = ("auto", "fork", "spawn")
"""The values of the setting ``worker_start``."""

_FORKING_PLATFORM: Final = "linux"


@frozen
class ImportTraces:
    """What the import of an application has left behind in its process.

    Attributes:
        threads: The names of the threads of Python that run, besides the main thread.
        foreign_threads: The number of other threads: those of libraries in C.
        has_reactor: Whether a reactor of Twisted's is installed.
        children: The ids of the child processes that run.
        opened: What the descriptors refer to that were opened, are still open, and cannot be shared
            by processes; as in ``/proc/self/fd``.
    """

    threads: Collection[str] = ()
    foreign_threads: int = 0
    has_reactor: bool = False
    children: Collection[int] = ()
    opened: Collection[str] = ()


def checked_start(chosen: str, platform: str, label: str) -> str:
    """Return the value of the setting ``worker_start`` if it is valid on a platform.

    Args:
        chosen: The value.
        platform: The platform, as in `sys.platform`.
        label: The setting's name where it is given.

    Raises:
        ConfigurationError: When it is not a valid value, or the platform cannot fork workers.
    """
    if chosen not in WORKER_STARTS:
        raise ConfigurationError(
            f"{label} is {chosen!r}, not a way to start workers", "give auto, fork or spawn"
        )
    if chosen == "fork" and platform != _FORKING_PLATFORM:
        raise ConfigurationError(f"{label} is fork, which takes Linux", "give auto or spawn")
    return chosen


def forks_workers(chosen: str, workers: int, platform: str) -> bool:
    """Decide whether a node forks its workers, if the application allows it.

    By itself a node does so for two or more workers: the template takes more memory than one
    worker would save.

    Args:
        chosen: The value of the setting ``worker_start``.
        workers: The number of worker processes.
        platform: The platform, as in `sys.platform`.
    """
    if chosen == "auto":
        return platform == _FORKING_PLATFORM and workers > 1
    return chosen == "fork"


def obstacle_to_fork(traces: ImportTraces) -> str | None:
    """Return why a process must not fork after an import, in words; None if it may.

    A fork copies only the thread that calls it, so that locks of other threads stay locked.
    Connections, the descriptors of event loops, positions in files and child processes would be
    shared by all workers.
    """
    if traces.threads:
        return f"started a thread ({', '.join(sorted(traces.threads))})"
    if traces.foreign_threads:
        return (
            f"started threads of a library, {traces.foreign_threads} of them (numerical libraries"
            " start none if OPENBLAS_NUM_THREADS=1 or OMP_NUM_THREADS=1)"
        )
    if traces.has_reactor:
        return "installed a reactor"
    if traces.children:
        return f"started a process ({', '.join(map(str, sorted(traces.children)))})"
    if traces.opened:
        return f"opened what processes cannot share ({', '.join(sorted(traces.opened))})"
    return None
