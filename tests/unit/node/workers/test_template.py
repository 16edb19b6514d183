"""Workers that a real template forks, as the starter in a master sees them."""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import cast

import pytest
import pytest_twisted
from attrs import field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs

from tests.waiting import eventually, running_reactor
from txqueue.node.workers import starter as worker_template
from txqueue.node.workers.starter import (
    Ended,
    ForkingStarter,
    SpawningStarter,
    StartedWorker,
    WorkerStarter,
)
from txqueue.system.inflight import InFlight
from txqueue.system.processes import (
    children_of,
    command_of,
    is_alive,
    parent_of,
    thread_count,
    workers_of,
)
from txqueue.wire.commands import CannotImport

LIMIT = 60.0
# Starts a thread that is not Python's.
FOREIGN_THREAD = """
thread, libc = ctypes.c_ulong(), ctypes.CDLL(None)
assert libc.pthread_create(ctypes.byref(thread), None, libc.pause, None) == 0
"""
# Forks a process whose parent then ends, and waits until it has noted its id.
FORKS_TWICE = """
import os, time
if not (pid := os.fork()):
    if not os.fork():
        with open('{note}', 'w') as note:
            note.write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.waitpid(pid, 0)
while not (os.path.exists('{note}') and open('{note}').read()):
    time.sleep(0.001)
"""
DSN = "dbname=nothing password=hidden"


@frozen
class Forked:
    """A worker, the master's end of its pipe, and how it ended."""

    worker: StartedWorker
    pipe: socket.socket
    ends: list[str]

    async def pid(self) -> int:
        """The process id, once it is reported."""
        return await eventually(lambda: self.worker.pid, LIMIT)

    async def end(self) -> str:
        """How it ended, once it has; its pipe is at its end then."""
        await eventually(lambda: self.ends, LIMIT)
        assert self.pipe.recv(1) == b""
        (end,) = self.ends
        return end


@frozen
class Otherwise:
    """Takes the starts of an application that must not be forked."""

    started: list[int] = field(factory=list)

    def prepare(self) -> Deferred[None]:
        """Be ready."""
        return succeed(None)

    def start(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Note it."""
        self.started.append(pipe)
        return cast("StartedWorker", None)

    def stop(self) -> Deferred[None]:
        """Have nothing to stop."""
        return succeed(None)


@frozen
class Bench:
    """A starter whose template imports an application of this test."""

    folder: Path
    starter: ForkingStarter
    otherwise: Otherwise
    pipes: list[socket.socket] = field(factory=list)

    def application(self, source: str) -> None:
        """Write the application."""
        (self.folder / "forked_application.py").write_text(source)

    async def start(self) -> Forked:
        """Start a worker."""
        await self.starter.prepare()
        ours, theirs = socket.socketpair()
        self.pipes.append(ours)
        ours.settimeout(LIMIT)
        shared = InFlight.made(10)
        ends: list[str] = []
        with theirs:
            worker = self.starter.start(ends.append, theirs.fileno(), shared)
        os.close(shared)
        return Forked(worker, ours, ends)


def template_pid() -> int:
    """The process id of the only template."""
    (pid,) = (p for p in children_of(os.getpid()) if "txqueue.worker.template" in command_of(p))
    return pid


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A starter; its template ends with the test."""
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(root)]))
    # Sources of one test are written within the resolution of the time of cached byte code.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    settings = {"app": ["forked_application"], "dsn": DSN, "capacity": 10}
    otherwise = Otherwise()
    starter = ForkingStarter(running_reactor(), settings, cast("WorkerStarter", otherwise))
    made = Bench(tmp_path, starter, otherwise)
    made.application("")
    yield made
    pytest_twisted.blockon(starter.stop())
    for pipe in made.pipes:
        pipe.close()


async def test_a_worker_ends_when_its_pipe_is_closed(bench: Bench) -> None:
    """It exits by itself, and its exit status reaches the master."""
    first, second = await bench.start(), await bench.start()
    # The other one, forked later, does not keep the pipe open.
    await second.pid()
    first.pipe.shutdown(socket.SHUT_WR)
    assert await first.end() == "with status 0"
    assert not second.ends
    assert is_alive(await second.pid())


async def test_a_worker_that_is_killed(bench: Bench) -> None:
    """Its end is reported by the signal, and its pipe closes although others live."""
    first, second = await bench.start(), await bench.start()
    await second.pid()
    first.worker.kill()
    assert await first.end() == "by SIGKILL"
    first.worker.kill()
    os.kill(await second.pid(), signal.SIGKILL)
    assert await second.end() == "by SIGKILL"


async def test_a_worker_that_is_killed_where_an_import_has_blocked_the_signal(
    bench: Bench,
) -> None:
    """The template reports its end all the same."""
    bench.application("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})\n")
    first, second = await bench.start(), await bench.start()
    await second.pid()
    os.kill(await first.pid(), signal.SIGKILL)
    assert await first.end() == "by SIGKILL"
    assert not second.ends


async def test_a_worker_is_named_and_a_child_of_the_template(bench: Bench) -> None:
    """So that processes are found by name, with either way of starting them."""
    pid = await (await bench.start()).pid()
    await eventually(lambda: workers_of(os.getpid()) == [pid], LIMIT)
    assert parent_of(pid) == template_pid() != os.getpid()


async def test_a_worker_has_nothing_of_its_template(bench: Bench) -> None:
    """Neither its descriptors nor its signal handler: what differs from a spawned one is a file."""
    bench.application("import os\nlog = open(os.devnull)")
    forked, ends = await (await bench.start()).pid(), list[str]()
    ours, theirs = socket.socketpair()
    shared = InFlight.made(10)
    with ours, theirs:
        spawned = SpawningStarter(running_reactor()).start(ends.append, theirs.fileno(), shared)
        theirs.close()
        os.close(shared)
        # The last that a worker opens before its reactor runs is the loop's pair of sockets.
        await eventually(lambda: len(kinds(spawned.pid)) >= len(kinds(forked)) - 1 > 3, LIMIT)
        await eventually(lambda: kinds(forked) == sorted([*kinds(spawned.pid), "/dev/null"]), LIMIT)
        await eventually(lambda: caught_signals(forked) == caught_signals(spawned.pid), LIMIT)
    await eventually(lambda: ends, LIMIT)


def kinds(pid: int) -> list[str]:
    """What the descriptors of a process refer to, without numbers."""
    found = []
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        # It may be closed meanwhile.
        with suppress(FileNotFoundError):
            found.append(str(path.readlink()))
    return sorted(target.split("[")[0] if ":[" in target else target for target in found)


def caught_signals(pid: int) -> str:
    """The signals that a process handles, as a mask."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith("SigCgt"))


async def test_what_the_application_prints_is_written_once(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """And not again by each worker at its end."""
    bench.application("print('imported once')")
    for worker in [await bench.start() for _ in range(2)]:
        worker.pipe.shutdown(socket.SHUT_WR)
        assert await worker.end() == "with status 0"
    assert capfd.readouterr().err.count("imported once") == 1


async def test_the_template_gets_its_settings_in_secret(bench: Bench) -> None:
    """The application finds its database in the environment; no command line has it."""
    note = bench.folder / "dsn"
    bench.application(
        f"import os, pathlib\npathlib.Path({str(note)!r}).write_text(os.environ['TXQUEUE_DSN'])"
    )
    await bench.starter.prepare()
    assert note.read_text() == DSN
    assert "hidden" not in command_of(template_pid())


async def test_a_template_that_is_killed(bench: Bench) -> None:
    """Its workers end with it, and the next start has a new one."""
    workers = [await bench.start() for _ in range(2)]
    pids = [await each.pid() for each in workers]
    former = template_pid()
    os.kill(former, signal.SIGKILL)
    for each in workers:
        assert await each.end() == "with its template, which ended by SIGKILL"
    await eventually(lambda: not any(map(is_alive, pids)), LIMIT)
    again = await bench.start()
    assert parent_of(await again.pid()) == template_pid() != former


@pytest.mark.parametrize("request_of", ["start", "kill"])
async def test_a_template_that_is_stuck(
    request_of: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed if it does not answer a request in time, and its workers with it."""
    first = await bench.start()
    await first.pid()
    monkeypatch.setattr(worker_template, "ANSWER_PATIENCE", 0.1)
    former = template_pid()
    os.kill(former, signal.SIGSTOP)
    if request_of == "start":
        await bench.start()
    else:
        first.worker.kill()
    assert await first.end() == "with its template, which ended by SIGKILL"
    again = await bench.start()
    assert parent_of(await again.pid()) == template_pid() != former


async def test_a_stop_with_a_stuck_template(bench: Bench) -> None:
    """The template and its workers end at once."""
    first = await bench.start()
    pid = await first.pid()
    os.kill(template_pid(), signal.SIGSTOP)
    await bench.starter.stop()
    assert await first.end() == "with its template, which ended by SIGKILL"
    await eventually(lambda: not is_alive(pid), LIMIT)


async def test_the_template_ends_when_its_master_closes_the_socket() -> None:
    """As it does at the death of the master, on systems that do not kill it then."""
    requests, theirs = socket.socketpair()
    reading, writing = os.pipe()
    with requests, theirs:
        # Both may have the numbers 3 and 4 here, and are moved out of the way first.
        high = [fcntl(number, F_DUPFD_CLOEXEC, 100) for number in (theirs.fileno(), writing)]
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "txqueue.worker.template"],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)],
        )
        for number in (*high, writing):
            os.close(number)
        theirs.close()
        requests.sendall(json.dumps({"app": ["json"], "dsn": ""}).encode() + b"\n")
        assert json.loads(os.read(reading, 1000)) == {"ready": True}
    os.close(reading)
    assert os.waitpid(pid, 0)[1] == 0


async def test_an_application_that_cannot_be_imported(bench: Bench) -> None:
    """The reason reaches everything that waits; the next attempt imports it anew."""
    bench.application("raise RuntimeError('not today')")
    waiting = [bench.starter.prepare() for _ in range(2)]
    for each in waiting:
        with pytest.raises(CannotImport, match="forked_application: RuntimeError: not today"):
            await each
    bench.application("")
    assert await (await bench.start()).pid()
    assert bench.otherwise.started == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
            "thread",
        ),
        ("from twisted.internet import reactor", "reactor"),
        ("import asyncio\nloop = asyncio.new_event_loop()", "eventpoll"),
        ("import socket\nopen_socket = socket.socket()", "socket"),
        ("import tempfile\nfile = tempfile.TemporaryFile()", "cannot share"),
        ("import multiprocessing\nmanager = multiprocessing.Manager()", "process"),
        ("import ctypes\n" + FOREIGN_THREAD, "threads of a library, 1 of them"),
    ],
    ids=["thread", "reactor", "loop", "socket", "file", "process", "library"],
)
async def test_an_application_that_must_not_be_forked(source: str, said: str, bench: Bench) -> None:
    """Its workers are started one by one; the log says why, once."""
    bench.application(source)
    with capturedLogs() as notes:
        for _ in range(2):
            await bench.start()
    assert len(bench.otherwise.started) == 2
    (note,) = [each for each in notes if "one by one" in each["log_format"]]
    assert said in str(note["why"])
    assert note["log_level"].name == "info"


async def test_an_application_that_must_not_be_forked_although_it_is_demanded(
    tmp_path: Path, bench: Bench
) -> None:
    """The log warns of it."""
    settings = {"app": ["forked_application"], "dsn": DSN}
    otherwise = cast("WorkerStarter", bench.otherwise)
    starter = ForkingStarter(running_reactor(), settings, otherwise, is_demanded=True)
    bench.application("import tempfile\nfile = tempfile.TemporaryFile()")
    with capturedLogs() as notes:
        await starter.prepare()
    (note,) = [each for each in notes if "one by one" in each["log_format"]]
    assert note["log_level"].name == "warn"


async def test_threads_that_the_import_has_joined(bench: Bench) -> None:
    """They are no obstacle, although the kernel may still have them for a moment."""
    bench.application(
        "import threading\n"
        "for _ in range(50):\n"
        "    thread = threading.Thread(target=int)\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    await bench.start()
    assert bench.starter.obstacle is None


async def test_files_that_processes_can_share(bench: Bench) -> None:
    """A log that the application has opened, as each entry is appended whole; devices; folders."""
    log = bench.folder / "log"
    files = f"open('/dev/null'), open({str(log)!r}, 'a'), os.open('.', 0)"
    bench.application(f"import os\nkept = {files}")
    assert await (await bench.start()).pid()


async def test_processes_of_the_application_do_not_hold_up_the_end(bench: Bench) -> None:
    """They have the descriptors of the template that forked them, and outlive it."""
    note = bench.folder / "forked"
    bench.application(FORKS_TWICE.format(note=note))
    first = await bench.start()
    await first.pid()
    outliving = int(note.read_text())
    os.kill(template_pid(), signal.SIGKILL)
    assert await first.end() == "with its template, which ended by SIGKILL"
    assert is_alive(outliving)
    os.kill(outliving, signal.SIGKILL)


@pytest.mark.parametrize("source", ["import tempfile\nfile = tempfile.TemporaryFile()", "1 / 0"])
async def test_a_refusal_leaves_no_warning(
    source: str, bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A template that forks nothing closes its socket, which matters where warnings are errors."""
    monkeypatch.setenv("PYTHONWARNINGS", "always::ResourceWarning")
    bench.application(source)
    with suppress(CannotImport):
        await bench.starter.prepare()
    assert "unclosed <socket" not in capfd.readouterr().err


async def test_a_clean_stop_warns_of_nothing(bench: Bench) -> None:
    """An end of the template that the master wants is no news."""
    await bench.start()
    with capturedLogs() as notes:
        await bench.starter.stop()
    assert notes == []


async def test_a_template_that_dies_while_it_imports(bench: Bench) -> None:
    """The starts that wait fail, and can be tried again."""
    bench.application("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    ended = "the template of the workers ended by SIGKILL as it imported forked_application"
    with pytest.raises(Exception, match=ended):
        await bench.starter.prepare()
    bench.application("")
    assert await (await bench.start()).pid()


async def test_a_stop_while_the_template_imports(bench: Bench) -> None:
    """The template ends at once, and the starts that wait fail."""
    bench.application("import time\ntime.sleep(600)")
    waiting = bench.starter.prepare()
    await bench.starter.stop()
    with pytest.raises(Exception, match="ended by SIGKILL"):
        await waiting


def test_threads_are_counted() -> None:
    """At least the one that runs this."""
    assert thread_count() >= 1
