"""A fork is what a new process of the same Python would be."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from txqueue.system.processes import open_gate
from txqueue_torture.fork_server import PRELOADED, ForkedProcess, ForkServer

PATIENCE = 60.0
# What a program sees of itself.
PROGRAM = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "name": __name__, "first": sys.path[0], "folder": os.getcwd(),
    "environment": dict(os.environ), "leads": os.getsid(0) == os.getpid(),
    "stdin": sys.stdin.read(), "descriptors": len(os.listdir("/proc/self/fd")),
}))
sys.exit(7)
"""
WAITING = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Forks the processes of this module's tests; it runs before the first of them begins."""
    it = ForkServer()
    process = started(it, tmp_path_factory.mktemp("first"), "-m", "program")
    assert process.stdin is not None
    process.stdin.close()
    process.wait(PATIENCE)
    yield it
    it.close()


def started(
    server: ForkServer, folder: Path, *words: str, environment: Mapping[str, str] = os.environ
) -> ForkedProcess:
    """A process at its gate, with a log in its folder."""
    with (folder / "log").open("wb") as log:
        return server.fork([sys.executable, *words], environment, folder, log.fileno())


@pytest.mark.parametrize("as_module", [True, False])
def test_a_program(server: ForkServer, tmp_path: Path, *, as_module: bool) -> None:
    """It has its arguments, environment, folder, input, output, and the status of its end."""
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ["-m", "program"] if as_module else [str(tmp_path / "program.py")]
    environment = {**os.environ, "MINE": "yes"}
    environment.pop("HOME", None)
    process = started(server, tmp_path, *words, "--word", environment=environment)
    open_gate(process, talks=True)
    assert process.stdin is not None
    process.stdin.write(b"said")
    process.stdin.close()
    assert process.wait(PATIENCE) == 7
    seen = json.loads((tmp_path / "log").read_text())
    assert seen["argv"] == [str(tmp_path / "program.py"), "--word"]
    assert seen["environment"] == environment
    assert (seen["name"], seen["stdin"], seen["leads"]) == ("__main__", "said", True)
    assert seen["first"] == seen["folder"] == str(tmp_path)
    # Those for input, output and errors, and the one that lists them: none of the server's.
    assert seen["descriptors"] == 4


def test_the_gate(server: ForkServer, tmp_path: Path) -> None:
    """A program whose gate is closed instead of opened does not start."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = started(server, tmp_path, "-m", "program")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 1
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_end_by_a_signal(server: ForkServer, tmp_path: Path, number: signal.Signals) -> None:
    """The status tells the signal, as that of any process does; a wait without an end is cut."""
    (tmp_path / "waits.py").write_text(WAITING)
    process = started(server, tmp_path, "-m", "waits")
    open_gate(process)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    (process.kill if number == signal.SIGKILL else process.terminate)()
    assert process.wait(PATIENCE) == process.poll() == process.returncode == -number
    process.kill()


def test_random_numbers(server: ForkServer, tmp_path: Path) -> None:
    """Each process draws numbers of its own, by which nodes wait for different times."""
    (tmp_path / "draws.py").write_text("import random; print(random.random())")
    drawn = set()
    for _ in range(2):
        process = started(server, tmp_path, "-m", "draws")
        open_gate(process)
        assert process.wait(PATIENCE) == 0
        drawn.add((tmp_path / "log").read_text())
    assert len(drawn) == 2


def test_what_is_not_forked() -> None:
    """Another program or another interpreter is started as usual."""
    ours = dict(os.environ)
    server = ForkServer()
    command = [sys.executable, "-m", "program"]
    assert server.can_fork(command, {**ours, "TXQUEUE_LEASE": "3"})
    assert not server.can_fork(["/bin/true"], ours)
    assert not server.can_fork(command, {**ours, "LD_PRELOAD": "libfaketime.so.1"})
    elsewhere = {**ours, "PYTHONPATH": "/elsewhere"}
    assert not server.can_fork(command, elsewhere)
    assert ForkServer(elsewhere).can_fork(command, elsewhere)


def test_what_is_imported_before() -> None:
    """No reactor is installed: forks would share what it polls, and the choice is theirs."""
    names = ", ".join(PRELOADED)
    program = f"import sys, {names}; print('twisted.internet.reactor' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"
