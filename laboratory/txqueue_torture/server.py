"""A PostgreSQL server for fault injection, with an optional standby and pooler."""

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
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import children_of, is_alive
from txqueue_torture.needs import program_path
from txqueue_torture.proxy import Address

__all__ = [
    "PORT",
    "Server",
    "as_account",
    "dsn_of",
    "lagging_standby_of",
    "pgbouncer",
    "pgbouncer_at",
    "program",
    "rejoin",
    "short_folder",
    "small_disk",
    "standby_of",
    "synchronise",
]

# Killed processes lose no data that they have written to the kernel, so fsync is not necessary.
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
    """A server in a folder, which keeps its data over restarts; a context manager.

    Args:
        folder: The server's folder. Its path must be short, as the unix socket is in it.
        settings: PostgreSQL settings that override the defaults for tests.
        version: The major version, as `EmbeddedServer` takes it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] = MappingProxyType({}),
        version: int = 18,
    ) -> None:
        self.folder = folder
        self._embedded = EmbeddedServer(folder, version, {**SETTINGS, **settings})
        self.dsn = ""

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the server."""
        self.stop()

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    @property
    def address(self) -> Address:
        """The address of its socket."""
        return Address(self.data / f".s.PGSQL.{PORT}")

    @property
    def log(self) -> str:
        """The server's log."""
        return (self.folder / "postgres.log").read_text("utf-8", "replace")

    @property
    def programs(self) -> Path:
        """The folder of the running server's programs."""
        return Path(f"/proc/{self.postmaster}/exe").resolve().parent

    @property
    def postmaster(self) -> int:
        """The postmaster's process id; 0 if the server does not run."""
        with suppress(OSError, ValueError):
            pid = int((self.data / "postmaster.pid").read_text().split("\n")[0])
            return pid if is_alive(pid) else 0
        return 0

    def start(self) -> str:
        """Start the server; return the superuser's DSN."""
        self.dsn = self._embedded.start()
        return self.dsn

    def stop(self) -> None:
        """Stop the server, ending its sessions; its data stay."""
        self._embedded.stop()

    def kill(self) -> int:
        """Kill the postmaster, wait until its children have ended, and return its process id."""
        postmaster = self.postmaster
        children = children_of(postmaster)
        os.kill(postmaster, signal.SIGKILL)
        _until(lambda: not any(map(is_alive, [postmaster, *children])), "end of all its processes")
        # End the process that would stop the server if this process died.
        self._embedded.stop()
        return postmaster

    def kill_backend(self, pid: int) -> None:
        """Kill one backend, after which the server ends all others and recovers."""
        os.kill(pid, signal.SIGKILL)

    def run(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs on this host, as the server's account.

        Raises:
            EmbeddedUnavailable: When the program fails.
        """
        _run([str(self.programs / name), *arguments], self.data.stat().st_uid)

    def session(self) -> Session:
        """Open a connection as the superuser."""
        return Session(self.dsn, application_name="txqueue torture")


def dsn_of(*addresses: Address, user: str = "postgres", attributes: str = "") -> str:
    """Return the DSN of one or several unix sockets.

    Args:
        addresses: The sockets of the servers, or of proxies in front of them.
        user: The user's name.
        attributes: The value of ``target_session_attrs``.
    """
    paths = [address.path for address in addresses if address.path is not None]
    folders = quote(",".join(str(path.parent) for path in paths), safe=",")
    ports = ",".join(path.name.rpartition(".")[2] for path in paths)
    tail = f"&target_session_attrs={attributes}" if attributes else ""
    return f"postgresql://{user}@/postgres?host={folders}&port={ports}{tail}"


def standby_of(primary: Server, folder: Path) -> Server:
    """Copy a server as its standby; the standby is not started yet.

    Args:
        primary: The running server.
        folder: The copy's folder.
    """
    standby = Server(folder)
    folder.mkdir(mode=0o755)
    _copy(primary, standby)
    return standby


def lagging_standby_of(primary: Server, standby: Server) -> Server:
    """Copy a server as a standby that never receives what the server writes from now on.

    Args:
        primary: The running server.
        standby: The standby; its folder is created, and it is not started yet.
    """
    standby.folder.mkdir(mode=0o755)
    _copy(primary, standby)
    with (standby.data / "postgresql.auto.conf").open("a") as settings:
        settings.write("primary_conninfo = ''\n")
    return standby


def synchronise(primary: Server) -> None:
    """Make replication synchronous, once the standby follows."""
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
    """Turn a stopped former primary into a standby of the new one."""
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
    """Delete the lock file that was copied from the other server and names its process."""
    for path in copy.data.glob(".s.PGSQL.*.lock"):
        path.unlink()


@contextmanager
def pgbouncer(server: Server, folder: Path, mode: str, size: int = 10) -> Iterator[Address]:
    """Run PgBouncer in front of a server; as `pgbouncer_at`."""
    target = f"host={server.data} port=5432 user=postgres"
    account = server.data.stat().st_uid
    with pgbouncer_at(target, account, folder, mode, size) as address:
        yield address


@contextmanager
def pgbouncer_at(
    target: str, account: int, folder: Path, mode: str, size: int = 10
) -> Iterator[Address]:
    """Run PgBouncer.

    Args:
        target: Where it connects to, as in its section ``[databases]``.
        account: The account that it runs as.
        folder: The folder for PgBouncer's files, with a short path.
        mode: ``transaction``, ``session`` or ``statement``.
        size: The number of connections to the server.

    Yields:
        The address at which PgBouncer listens.
    """
    folder.mkdir()
    os.chown(folder, account, pwd.getpwuid(account).pw_gid)
    address = Address(folder / ".s.PGSQL.6432")
    settings = folder / "pgbouncer.ini"
    settings.write_text(_BOUNCER.format(target=target, folder=folder, mode=mode, size=size))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program("pgbouncer"), str(settings)], stdout=log, stderr=log, **as_account(account)
        )
    try:
        _until(lambda: _listens(folder / ".s.PGSQL.6432"), "PgBouncer")
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _listens(path: Path) -> bool:
    """Tell whether a server listens at a unix socket, whose file alone does not prove it."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder for servers, with a short path that their account may enter."""
    with tempfile.TemporaryDirectory(prefix="txqueue-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a small file system that can be filled; needs root.

    Args:
        folder: The mount point; created.
        megabytes: The size.
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
* = {target}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
server_login_retry = 1
max_client_conn = 500
"""


def program(name: str) -> str:
    """Return the path of an installed program.

    Raises:
        EmbeddedUnavailable: When it is not installed.
    """
    path = program_path(name)
    if path is None:
        raise EmbeddedUnavailable(f"{name} is not installed", f"apt-get install {name}")
    return path


def as_account(account: int) -> dict[str, Any]:
    """Return the arguments to run a process as another account, if permitted."""
    entry = pwd.getpwuid(account)
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PG")}
    manners: dict[str, Any] = {"cwd": "/", "env": environment, "start_new_session": True}
    if os.geteuid() == 0:
        manners |= {"user": account, "group": entry.pw_gid, "extra_groups": []}
    return manners


def _run(command: Sequence[str], account: int) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, **as_account(account)
    )
    if done.returncode:
        error_text = " ".join(done.stderr.split())[-300:]
        raise EmbeddedUnavailable(f"{Path(command[0]).name} failed: {error_text}")


def _until(predicate: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not predicate():
        if time.monotonic() > deadline:
            raise EmbeddedUnavailable(f"no {what} within {PATIENCE:g} s")
        time.sleep(0.02)
