"""Another queue that does the same work, and what carries its jobs: PostgreSQL or Redis."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, Protocol

from attrs import frozen

from benchmarks.footprint import Footprint
from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import all_processes, descendants_of, stat_of
from txqueue_bench.cpu_time import cpu_seconds

__all__ = [
    "CALM",
    "EVERY_MS",
    "LIMIT",
    "RATE",
    "STEADY_SECONDS",
    "STEPS_SHARE",
    "TIMED",
    "WAVES",
    "WORKERS",
    "Figures",
    "PostgresBroker",
    "RedisBroker",
    "Rival",
    "Stage",
    "StepsRival",
    "at_rest",
    "drain_speed",
    "ended",
    "percentiles",
    "statements_in",
]

WORKERS, SECONDS, TIMED, WARM_UP, EVERY_MS = 2, 3, 500, 20, 20
RATE, STEADY_SECONDS = 500, 10
STEPS_SHARE = 20
"""One of so many jobs has steps."""
WAVES = 10
"""Under a held snapshot, after one that warms up."""
SNAPSHOT = "isolation level repeatable read, read only"
LIMIT = 900.0
SETTLE = 2.0
# Seconds until a worker counts as idle after a job, and in which its statements are counted.
CALM, REST = 15.0, 15.0
# Indexes in /proc/PID/stat after the name: the group, and the times of a process and its children.
GROUP = 2
TIMES = slice(11, 15)

Figures = dict[str, float]
Stage = Callable[[int], Figures]
"""Measures some figures with a number of jobs."""


class Broker(Protocol):
    """What carries the jobs of a rival."""

    def is_busy(self) -> bool:
        """Tell whether jobs are waiting or running."""

    def tidy(self) -> None:
        """Put it in order before a drain."""

    def cpu_seconds(self, group: int) -> float:
        """Return the CPU time of it and of a process group so far, in seconds."""

    def statements(self) -> int:
        """Return how many statements it has carried out so far."""


@frozen
class PostgresBroker:
    """A database.

    Attributes:
        dsn: The database.
        session: A session in it.
        waiting: The statement that tells whether jobs are waiting or running.
        log: The server's, with a line for each statement while the rest is measured.
    """

    dsn: str
    session: Session
    waiting: str
    log: Path

    def is_busy(self) -> bool:
        """Tell whether jobs are waiting or running."""
        return bool(self.session.value(self.waiting))

    def tidy(self) -> None:
        """Refresh its statistics."""
        self.session.rows("vacuum analyze")

    @contextmanager
    def held_snapshot(self) -> Iterator[None]:
        """Keep vacuum from all rows that are dead from now on."""
        with Session(self.dsn) as session, session.transaction(SNAPSHOT):
            session.rows("set local idle_in_transaction_session_timeout = 0")
            session.rows("select from pg_class limit 1")
            yield

    def cpu_seconds(self, group: int) -> float:
        """Return the CPU time of the server and of a process group so far, in seconds."""
        return cpu_seconds(group, int(self.session.value("select pg_backend_pid()"))) or 0.0

    def statements(self) -> int:
        """Return how many statements the log has of this database."""
        database = self.session.value("select current_database()")
        return statements_in(self.log.read_text("utf-8", "replace"), database)


@frozen
class RedisBroker:
    """A Redis server that listens at a unix socket, in a process group of its own."""

    socket: Path
    process: subprocess.Popen[bytes]

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[RedisBroker]:
        """Start one with its default durability: snapshots now and then."""
        if shutil.which("redis-server") is None:
            raise TxqueueError("there is no redis-server", "install it, or name the other queues")
        socket = folder / "redis.sock"
        line = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, process_group=0)
        broker = cls(socket, process)
        try:
            broker.wait_until_up()
            yield broker
        finally:
            process.terminate()
            process.wait()

    def ask(self, *words: str) -> str:
        """Return the answer of a command."""
        line = ["redis-cli", "-s", str(self.socket), *words]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()

    def wait_until_up(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(subprocess.CalledProcessError):
                if self.ask("ping") == "PONG":
                    return
            time.sleep(0.05)
        raise TimeoutError("redis-server does not answer after 10 s")

    def is_busy(self) -> bool:
        """Tell whether jobs are waiting or running."""
        return any(self.ask(*each) != "0" for each in (("llen", "celery"), ("hlen", "unacked")))

    def tidy(self) -> None:
        """Do nothing: it keeps no statistics."""

    def cpu_seconds(self, group: int) -> float:
        """Return the CPU time of the server and of a process group so far, in seconds."""
        return sum(map(group_cpu_seconds, (group, self.process.pid)))

    def statements(self) -> int:
        """Return how many commands it has carried out so far, but those that ask for it."""
        calls = re.findall(r"^cmdstat_(\w+):calls=(\d+)", self.ask("info", "commandstats"), re.M)
        return sum(int(count) for name, count in calls if name != "info")


def statements_in(log: str, database: str) -> int:
    """Count the statements that a server's log has of a database; its lines begin with that."""
    begins = tuple(f"{database} LOG:  {what}" for what in ("statement: ", "execute "))
    return sum(line.startswith(begins) for line in log.splitlines())


def at_rest(pids: Iterable[int], statements: Callable[[], int]) -> Figures:
    """Return what idle processes take of memory, in MiB, and how many statements they send.

    Args:
        pids: All processes of a worker.
        statements: Tells how many statements there were so far.
    """
    memory = Footprint.of(pids).mib()
    before, began = statements(), time.monotonic()
    time.sleep(REST)
    passed = time.monotonic() - began
    return {**memory, "statements": (statements() - before) / passed}


def group_cpu_seconds(group: int) -> float:
    """Return the CPU time of a process group so far, in seconds."""
    ticks = 0
    for pid in all_processes():
        with suppress(OSError):
            stat = stat_of(pid)
            ticks += sum(map(int, stat[TIMES])) if int(stat[GROUP]) == group else 0
    return ticks / os.sysconf("SC_CLK_TCK")


@frozen
class Rival:
    """Another queue, which a program of ours drives.

    Attributes:
        command: What runs it; a verb and its parameters follow.
        environment: With the place of its broker.
        broker: What carries its jobs.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    broker: Broker

    def ask(self, *verb: object) -> dict[str, Any]:
        """Run a verb to its end; return its output."""
        line = [*self.command, *map(str, verb)]
        done = subprocess.run(
            line, env=self.environment, check=True, timeout=LIMIT, stdout=subprocess.PIPE
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def begin(self, kind: str) -> subprocess.Popen[str]:
        """Start a worker process."""
        line = [*self.command, "work", kind]
        return subprocess.Popen(
            line,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def begin_ready(self, kind: str = "single") -> subprocess.Popen[str]:
        """Start a worker process for single jobs, or to rest; wait until it is ready."""
        process = self.begin(kind)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(SETTLE)
        return process

    def wait_until_done(self) -> None:
        """Wait until no job is left."""
        until = time.monotonic() + LIMIT
        while self.broker.is_busy():
            if time.monotonic() > until:
                raise TimeoutError(f"{self.command} is not done after {LIMIT:.0f} s")
            time.sleep(0.1)

    def bulk(self, jobs: int) -> Figures:
        """Measure enqueueing, and a drain."""
        singly = self.ask("one", SECONDS)["per_second"]
        self.drain(workers=1)
        bulk = self.ask("bulk", jobs)["per_second"]
        return {"one_at_a_time": singly, "bulk": bulk, "drain": self.drain()}

    def idle(self, _: int) -> Figures:
        """Measure how soon a job starts on an idle worker."""
        idle = self.latency(TIMED, EVERY_MS)
        return {part: idle[part] for part in ("p50", "p95", "p99")}

    def steady(self, _: int) -> Figures:
        """Measure how soon jobs start at a steady pace, and what they cost."""
        steady = self.latency(RATE * STEADY_SECONDS, 1000 / RATE)
        return {f"steady_{part}": figure for part, figure in steady.items()}

    def rest(self, _: int) -> Figures:
        """Measure an idle worker that has run some jobs."""
        process = self.begin_ready("rest")
        self.ask("send", WARM_UP, EVERY_MS)
        self.wait_until_done()
        time.sleep(CALM)
        figures = at_rest([process.pid, *descendants_of(process.pid)], self.broker.statements)
        ended(process)
        return figures

    def held(self, snapshot: Callable[[], AbstractContextManager[None]], jobs: int) -> Figures:
        """Measure the last wave of jobs under a held snapshot, as a part of the first."""
        with snapshot():
            speeds = [self.wave(max(1, jobs // WAVES)) for _ in range(1 + WAVES)]
        return {"held": speeds[-1] / speeds[1]}

    def wave(self, jobs: int) -> float:
        """Return the jobs a second of a drain of so many."""
        self.ask("bulk", jobs)
        return self.drain()

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The measurements, in their order."""
        stages = {"bulk": self.bulk, "idle": self.idle, "steady": self.steady, "rest": self.rest}
        if isinstance(self.broker, PostgresBroker):
            stages["held"] = partial(self.held, self.broker.held_snapshot)
        return stages

    def drain(self, workers: int = WORKERS, kind: str = "bulk") -> float:
        """Return the jobs a second of some workers."""
        self.broker.tidy()
        processes = [self.begin(kind) for _ in range(workers)]
        self.wait_until_done()
        return drain_speed(map(ended, processes))

    def latency(self, jobs: int, every_ms: float) -> Figures:
        """Return how soon jobs start, enqueued at an interval in ms, in ms; and the CPU time of the
        worker and the broker, in seconds per 1,000 jobs.
        """
        process = self.begin_ready()
        before = self.broker.cpu_seconds(process.pid)
        self.ask("send", WARM_UP + jobs, every_ms)
        self.wait_until_done()
        spent = self.broker.cpu_seconds(process.pid) - before
        took = percentiles(ended(process)["took"][WARM_UP:])
        return {**took, "cpu": spent / (WARM_UP + jobs) * 1000}


@frozen
class StepsRival(Rival):
    """Another library whose jobs have durable steps, which a program of ours drives."""

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The only measurement."""
        return {"steps": self.steps}

    def steps(self, jobs: int) -> Figures:
        """Measure a drain of jobs of five empty steps."""
        self.ask("bulk", max(1, jobs // STEPS_SHARE))
        return {"steps": self.drain()}


def percentiles(took: Iterable[float]) -> Figures:
    """Return the percentiles of some times that are shown."""
    parts = quantiles(took, n=100)
    return {f"p{part}": parts[part - 1] for part in (50, 95, 99)}


def drain_speed(told: Iterable[Mapping[str, Any]]) -> float:
    """Return the jobs a second of some workers, from what each of them has told at its end."""
    busy = [each for each in told if each["count"]]
    first, last = min(each["first"] for each in busy), max(each["last"] for each in busy)
    return float(sum(each["count"] for each in busy) / (last - first))


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """End a worker process; return its report."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    return dict(json.loads(said.splitlines()[-1]))
