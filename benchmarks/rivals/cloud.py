"""A server as in a cloud: commits that take longer, far away, with a standby that is late."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from benchmarks.rivals.network import far_port
from txqueue.embedded import DEFAULTS
from txqueue.errors import EmbeddedUnavailable
from txqueue.store.inquiries.reader import Session
from txqueue_torture.node import free_port
from txqueue_torture.server import PORT, Server, standby_of, synchronise

__all__ = ["CONDITIONS", "commit_ms", "server", "slow_disk"]

STANDBY_LATE = "20ms"
COMMIT_DELAY = ("commit_delay = 5000", "commit_siblings = 0")
SLOW_FDATASYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int fdatasync(int file)
{
    static int (*real)(int);
    struct timespec longer = {MICROSECONDS / 1000000, MICROSECONDS % 1000000 * 1000L};

    if (!real)
        real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    nanosleep(&longer, 0);
    return real(file);
}
"""


def compiled(folder: Path, milliseconds: float) -> Path:
    """Compile the library that makes `fdatasync` take longer; all accounts may read it.

    Raises:
        EmbeddedUnavailable: Without a C compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise EmbeddedUnavailable(
            "a slow disk needs a C compiler, and there is no cc", "install gcc, or give --disk 0"
        )
    source, library = folder / "slow_fdatasync.c", folder / "slow_fdatasync.so"
    source.write_text(SLOW_FDATASYNC)
    delay = f"-DMICROSECONDS={round(milliseconds * 1000)}"
    line = [compiler, "-shared", "-fPIC", "-O2", delay, "-o", library, source, "-ldl"]
    subprocess.run([*map(str, line)], check=True)
    library.chmod(0o755)
    return library


@contextmanager
def slow_disk(folder: Path, milliseconds: float) -> Iterator[None]:
    """Make processes that are started in the block write to a slow disk; 0 for the real one."""
    if not milliseconds:
        yield
        return
    os.environ["LD_PRELOAD"] = str(compiled(folder, milliseconds))
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"]


def commit_ms(dsn: str, commits: int = 21) -> float:
    """Return how long a commit of one client takes, in milliseconds: the median."""
    took = []
    with Session(dsn) as session:
        for _ in range(commits):
            began = time.monotonic()
            session.rows("select pg_logical_emit_message(true, '', '')")
            took.append(time.monotonic() - began)
    return statistics.median(took) * 1000


@contextmanager
def server(
    folder: Path, *, by_tcp: bool = False, disk: float = 0.0, network: float = 0.0
) -> Iterator[tuple[Server, str]]:
    """Run a server; gives it, and the DSN by which its clients reach it.

    Args:
        folder: A folder for its files, which other accounts may enter.
        by_tcp: Whether clients connect through a port of this host instead of a socket.
        disk: How many milliseconds longer a commit takes.
        network: How many milliseconds a round trip takes.
    """
    port = free_port() if by_tcp else 0
    tcp = {"listen_addresses": "127.0.0.1", "port": str(port)} if port else {}
    one = Server(folder / "server", {**DEFAULTS, "fsync": "on", **tcp})
    with ExitStack() as stack:
        with slow_disk(folder, disk):
            stack.enter_context(one)
        ensure_slow(one.dsn, disk)
        if network:
            port = stack.enter_context(far_port(one.data / f".s.PGSQL.{port or PORT}", network))
        yield one, f"postgresql://postgres@127.0.0.1:{port}/postgres" if port else one.dsn


def ensure_slow(dsn: str, milliseconds: float) -> None:
    """Check that commits take as long as they should.

    Raises:
        EmbeddedUnavailable: If not: the library was not loaded.
    """
    took = commit_ms(dsn) if milliseconds else 0.0
    if took < milliseconds:
        raise EmbeddedUnavailable(
            f"a commit takes {took:.2f} ms, although the disk should be {milliseconds:g} ms slower",
            "the server ignores LD_PRELOAD or does not commit by fdatasync: give --disk 0",
        )


@contextmanager
def configured(dsn: str, settings: Sequence[str]) -> Iterator[None]:
    """Change settings of the server for a while."""
    with Session(dsn) as session:
        for setting in settings:
            session.rows(f"alter system set {setting}")
        session.rows("select pg_reload_conf()")
        try:
            yield
        finally:
            for setting in settings:
                session.rows(f"alter system reset {setting.partition(' ')[0]}")
            session.rows("select pg_reload_conf()")


@contextmanager
def late_standby(primary: Server) -> Iterator[None]:
    """Have all commits wait until a standby has applied them, which it does late."""
    folder = primary.folder.parent / "standby"
    standby = standby_of(primary, folder)
    with (standby.data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"recovery_min_apply_delay = {STANDBY_LATE}\n")
    waits = ("synchronous_commit = remote_apply", "synchronous_standby_names = '*'")
    with standby, configured(primary.dsn, waits):
        synchronise(primary)
        yield


def commit_delay(primary: Server) -> AbstractContextManager[None]:
    """Have the server wait 5 ms for more commits before it writes them."""
    return configured(primary.dsn, COMMIT_DELAY)


def log_statements(primary: Server) -> AbstractContextManager[None]:
    """Have the server log every statement of new sessions, with its database."""
    return configured(primary.dsn, ("log_statement = 'all'", "log_line_prefix = '%d '"))


CONDITIONS: dict[str, Callable[[Server], AbstractContextManager[None]]] = {
    "standby": late_standby,
    "commit_delay": commit_delay,
    "rest": log_statements,
}
"""Under which condition of the server a row is measured, if any."""
