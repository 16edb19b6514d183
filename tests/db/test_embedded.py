"""The embedded server: its data, its folder and its end."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from txqueue.embedded import EmbeddedServer
from txqueue.errors import EmbeddedUnavailable

pytestmark = pytest.mark.slow("txqueue/embedded.py")

PATIENCE = 60.0
HOLDER = f"another process, {os.getpid()}, runs the server in .* or ran it"
OWNER = """
import sys
from txqueue.embedded import EmbeddedServer
server = EmbeddedServer()
print(server.start(), *server.pids, flush=True)
sys.stdin.read()
"""


def asked(dsn: str, statement: str) -> str:
    """Run a statement that has one value."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(statement)
        return str(cursor.fetchall()[0][0])


def test_data_are_kept_and_belong_to_their_version(tmp_path: Path) -> None:
    """The next start has them; a server of another version says that it cannot read them."""
    with EmbeddedServer(tmp_path / "made", 16) as dsn:
        asked(dsn, "create table kept as select 7 as number; select 1")
    with EmbeddedServer(tmp_path / "made", 16) as dsn:
        assert asked(dsn, "select number from kept") == "7"
    with pytest.raises(EmbeddedUnavailable, match="initialized by PostgreSQL version 16"):
        EmbeddedServer(tmp_path / "made", 18).start()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Two servers would ruin the data."""
    with EmbeddedServer(tmp_path) as dsn:
        with pytest.raises(EmbeddedUnavailable, match=HOLDER):
            EmbeddedServer(tmp_path).start()
        assert asked(dsn, "select 1") == "1"


def test_a_folder_whose_server_was_killed_names_the_process_to_end(tmp_path: Path) -> None:
    """It runs no server any more, but holds the folder; after its end another has the data."""
    with EmbeddedServer(tmp_path) as dsn:
        asked(dsn, "create table kept as select 7 as number; select 1")
        os.kill(int((tmp_path / "data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        with pytest.raises(EmbeddedUnavailable, match=HOLDER):
            EmbeddedServer(tmp_path).start()
    with EmbeddedServer(tmp_path) as dsn:
        assert asked(dsn, "select number from kept") == "7"


def test_a_version_that_the_wheel_has_not_is_refused(tmp_path: Path) -> None:
    """Before anything is made."""
    with pytest.raises(EmbeddedUnavailable, match="carries PostgreSQL 16 and 18, not 12"):
        EmbeddedServer(tmp_path / "none", 12).start()
    assert not (tmp_path / "none").exists()


def test_a_server_ends_with_its_process(tmp_path: Path) -> None:
    """Even if that is killed; nothing of a temporary one is left."""
    # Like /tmp: the server may run, and clean up, as another account than ours.
    tmp_path.chmod(0o1777)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        dsn, *pids = owner.stdout.readline().split()
        assert asked(dsn, "select 1") == "1"
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in pids) or any(tmp_path.iterdir()):
        assert time.monotonic() < deadline, [*tmp_path.iterdir()]
        time.sleep(0.05)


def test_a_server_that_is_frozen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is its watcher; to stop a server takes a limited time."""
    server = EmbeddedServer(tmp_path / "frozen")
    server.start()
    pids = server.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr("txqueue.embedded._PATIENCE", 0.5)
    server.stop()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_folder_that_cannot_be_used_is_named() -> None:
    """By one line with the remedy, not by a traceback."""
    with pytest.raises(EmbeddedUnavailable, match="the folder /proc/self/x cannot be used"):
        EmbeddedServer(Path("/proc/self/x")).start()
