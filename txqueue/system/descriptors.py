"""Descriptors and files of this process: which are open, and which have secrets."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from txqueue.errors import ConfigurationError

_OWN: Final = "/proc/self/fd"
# The descriptors kept for the process's own needs, such as new workers and database connections,
# and the part of all that these may be where the limit is low.
_RESERVED, _PART = 128, 4


def open_descriptors() -> dict[int, str]:
    """Return what each open descriptor of this process refers to, as ``/proc/self/fd`` names it."""
    descriptors: dict[int, str] = {}
    for number in os.listdir(_OWN):
        # The descriptor by which the folder was read is closed by now.
        with suppress(OSError):
            descriptors[int(number)] = os.readlink(f"{_OWN}/{number}")
    return descriptors


def free_descriptors() -> int | None:
    """Return how many more descriptors this process may open; None where that is not known."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return None if limit == resource.RLIM_INFINITY else limit - len(os.listdir(_OWN))
    except OSError:
        return None


def has_spare_descriptors(*, is_essential: bool = False) -> bool:
    """Return whether more are free than are kept for the process's own needs.

    Args:
        is_essential: Whether they are wanted for probes, operators or peers, which may use half of
            what is kept: a crowd at the dashboard must not shut them out.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = free_descriptors()
    reserve = min(_RESERVED, limit // _PART)
    return free is None or free > (reserve // 2 if is_essential else reserve)


def is_safe_to_share(descriptor: int) -> bool:
    """Return whether several forks of this process can use a descriptor independently.

    They share the position in a file and its locks, and the data of a connection. That does not
    matter to a device such as ``/dev/null``, and to a log, which is opened for appending.
    """
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND)
    return stat.S_ISCHR(kind) or stat.S_ISDIR(kind)


def read_private(path: Path, subject: str, option: str) -> str:
    """Return the text of a file with secrets.

    Args:
        path: The file.
        subject: What it has, for an error.
        option: The option that names it, for an error.

    Raises:
        ConfigurationError: When the file cannot be read, or others may read or change it.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read {subject} in {path}: {error}", f"check the path: {option} FILE"
        ) from None
    if mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(
            f"other accounts can read or change {path}", f"run: chmod 600 {path}"
        )
    return text
