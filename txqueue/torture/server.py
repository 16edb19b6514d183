"""A PostgreSQL server that is there to be hurt, with a standby and a pooler of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import quote

from txqueue.embedded import EmbeddedServer
from txqueue.errors import EmbeddedUnavailable
from txqueue.store.reader import Session
from txqueue.system.procfs import children_of, is_alive
from txqueue.torture.proxy import Address

__all__ = [
    "Server",
    "dsn_of",
    "pgbouncer",
    "rejoin",
    "short_folder",
    "small_disk",
    "standby_of",
    "synchronise",
]

# Killing a process loses nothing of what the kernel has, so that fsync is spared.
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"fsync": "off", "shared_buffers": "64MB", "max_wal_size": "256MB", "max_connections": "150"}
)
PORT: Final = 5432
PATIENCE: Final = 30.0
_SYNCHRONOUS: Final = (
    "alter system set synchronous_standby_names = '*'",
    "select pg_reload_conf()",
)


class Server:
    """A server in a folder, which keeps its data over every end; a context manager.

    Args:
        folder: Its folder, with a short name: it holds the unix socket.
        settings: PostgreSQL's settings on top of what suits a test.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.folder = folder
        self._embedded = EmbeddedServer(folder, settings={**SETTINGS, **settings})
        self.dsn = ""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop it."""
        self.stop()

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / "data"

    @property
    def address(self) -> Address:
        """Its socket."""
        return Address(self.data / f".s.PGSQL.{PORT}")

    @property
    def log(self) -> str:
        """What it has printed."""
        return (self.folder / "postgres.log").read_text("utf-8", "replace")

    @property
    def postmaster(self) -> int:
        """The process that all others of it are children of; 0 if it does not run."""
        with suppress(OSError, ValueError):
            pid = int((self.data / "postmaster.pid").read_text().split("\n")[0])
            return pid if is_alive(pid) else 0
        return 0

    def start(self) -> str:
        """Start it; returns the superuser's DSN."""
        self.dsn = self._embedded.start()
        return self.dsn

    def stop(self) -> None:
        """Stop it, ending its sessions; its data stay."""
        self._embedded.stop()

    def kill(self) -> int:
        """Kill the postmaster, wait until all children of it are gone; returns its number."""
        postmaster = self.postmaster
        children = children_of(postmaster)
        os.kill(postmaster, signal.SIGKILL)
        _until(lambda: not any(map(is_alive, [postmaster, *children])), "end of all its processes")
        # The watcher finds nothing left to stop; what it holds is given back.
        self._embedded.stop()
        return postmaster

    def kill_backend(self, pid: int) -> None:
        """Kill one backend: the server ends all the others, and recovers."""
        os.kill(pid, signal.SIGKILL)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs on this host, as the server's account.

        Raises:
            EmbeddedUnavailable: When it fails.
        """
        programs = Path(f"/proc/{self.postmaster}/exe").resolve().parent
        _run([str(programs / program), *arguments], self.data.stat().st_uid)

    def session(self) -> Session:
        """Open a connection as the superuser."""
        return Session(self.dsn, application_name="txqueue torture")


def dsn_of(*addresses: Address, user: str = "postgres", attributes: str = "") -> str:
    """Return the DSN of one or several unix sockets.

    Args:
        addresses: The sockets of the servers, or of what stands before them.
        user: Whose.
        attributes: What ``target_session_attrs`` is to be.
    """
    paths = [address.path for address in addresses if address.path is not None]
    folders = quote(",".join(str(path.parent) for path in paths), safe=",")
    ports = ",".join(path.name.rpartition(".")[2] for path in paths)
    tail = f"&target_session_attrs={attributes}" if attributes else ""
    return f"postgresql://{user}@/postgres?host={folders}&port={ports}{tail}"


def standby_of(primary: Server, folder: Path) -> Server:
    """Copy a server, and have the copy follow it; returned before it is started.

    Args:
        primary: The server, which runs.
        folder: The copy's folder.
    """
    standby = Server(folder)
    folder.mkdir(mode=0o755)
    _copy(primary, standby)
    return standby


def synchronise(primary: Server) -> None:
    """Have a primary acknowledge nothing that its standby has not, once that follows it."""
    with primary.session() as session:
        for statement in _SYNCHRONOUS:
            session.rows(statement)
        _until(
            lambda: session.value(
                "select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')"
            ),
            "synchronous standby",
        )


def rejoin(former: Server, primary: Server) -> None:
    """Have a former primary, which is stopped, follow the one that has taken its place."""
    shutil.rmtree(former.data)
    _copy(primary, former)
    former.start()


def _copy(primary: Server, standby: Server) -> None:
    account = primary.data.stat().st_uid
    os.chown(standby.folder, account, account)
    source = dsn_of(primary.address)
    primary.run("pg_basebackup", "-d", source, "-D", str(standby.data), "-R", "-c", "fast")
    _forget_lock(standby)


def _forget_lock(copy: Server) -> None:
    """The lock of the socket lies among the data, and a copy's names the other server."""
    for path in copy.data.glob(".s.PGSQL.*.lock"):
        path.unlink()


@contextmanager
def pgbouncer(server: Server, folder: Path, mode: str, size: int = 10) -> Iterator[Address]:
    """Run PgBouncer in front of a server.

    Args:
        server: The server.
        folder: A folder for it, with a short name.
        mode: ``transaction``, ``session`` or ``statement``.
        size: Connections to the server.

    Yields:
        Where it listens.
    """
    folder.mkdir()
    account = pwd.getpwuid(server.data.stat().st_uid)
    os.chown(folder, account.pw_uid, account.pw_gid)
    address = Address(folder / ".s.PGSQL.6432")
    settings = folder / "pgbouncer.ini"
    settings.write_text(_BOUNCER.format(data=server.data, folder=folder, mode=mode, size=size))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [_program("pgbouncer"), str(settings)], stdout=log, stderr=log, **_as(account.pw_uid)
        )
    try:
        _until(lambda: _listens(folder / ".s.PGSQL.6432"), "PgBouncer")
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _listens(path: Path) -> bool:
    """A socket is there a moment before its server listens on it."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder for servers: its name is short, and their account may go in and out."""
    with tempfile.TemporaryDirectory(prefix="txqueue-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of its own, which can be filled; needs root.

    Args:
        folder: Where; made.
        megabytes: How large.
    """
    folder.mkdir()
    options = f"size={megabytes}m,mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


_BOUNCER = """\
[databases]
* = host={data} port=5432 user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
"""


def _program(name: str) -> str:
    """Find a program; Debian keeps daemons where only root's path leads."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise EmbeddedUnavailable(f"{name} is not installed", f"apt-get install {name}")
    return found


def _as(account: int) -> dict[str, Any]:
    """How a process is run as another account, if we may choose."""
    entry = pwd.getpwuid(account)
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PG")}
    manners: dict[str, Any] = {"cwd": "/", "env": environment, "start_new_session": True}
    if os.geteuid() == 0:
        manners |= {"user": account, "group": entry.pw_gid, "extra_groups": []}
    return manners


def _run(command: Sequence[str], account: int) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **_as(account))
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise EmbeddedUnavailable(f"{Path(command[0]).name} failed: {said}")


def _until(predicate: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not predicate():
        if time.monotonic() > deadline:
            raise EmbeddedUnavailable(f"no {what} within {PATIENCE:g} s")
        time.sleep(0.02)
