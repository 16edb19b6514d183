"""Enqueues by plain SQL, one job a transaction, of many clients: by pgbench.

pgbench notes when each transaction has ended for its client, the worker when each job starts; both
by this host's clock. A job carries the numbers of its client and transaction.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path

from attrs import frozen

from benchmarks.rivals.rival import Figures, Stage, percentiles
from benchmarks.rivals.work import Start

__all__ = ["CLIENTS", "LONE", "Enqueuer", "Traffic", "started_after"]

SECONDS, THREADS = 4, 2
CLIENTS = {
    "enqueue_1": 1,
    "enqueue_8": 8,
    "enqueue_32": 32,
    "standby": 16,
    "commit_delay": 16,
}
"""The rows, and how many clients each has."""
LONE, LONE_RATE = "lone", 50
"""The row of one client that enqueues so many jobs a second; only the latency counts."""
TRANSACTION = "\\set number :number + 1\n{statement};\n"


@frozen
class Traffic:
    """What pgbench has done: transactions a second, and when each has ended, by its numbers."""

    per_second: float
    ended: Mapping[tuple[int, int], int]


def ends(lines: Iterable[str]) -> Iterator[tuple[tuple[int, int], int]]:
    """Read pgbench's log: client, number, microseconds, script, and the end in two parts."""
    counts: dict[int, int] = {}
    for line in lines:
        client, _, _, _, seconds, rest, *_ = map(int, line.split())
        counts[client] = counts.get(client, 0) + 1
        yield (client, counts[client]), seconds * 1_000_000 + rest


def pgbench(programs: Path, dsn: str, statement: str, clients: int, rate: int = 0) -> Traffic:
    """Run a statement in transactions of its own, with many clients, for some seconds."""
    with tempfile.TemporaryDirectory(prefix="txqueue-pgbench-") as name:
        folder = Path(name)
        script = folder / "script.sql"
        script.write_text(TRANSACTION.format(statement=statement))
        line = [programs / "pgbench", "-n", "-f", script, "-c", clients, "-T", SECONDS]
        line += ["-j", min(clients, THREADS), "-D", "number=0", "--log"]
        line += ["--log-prefix", folder / "log", *(["-R", rate] if rate else []), dsn]
        told = subprocess.run([*map(str, line)], check=True, capture_output=True, text=True)
        logs = [path.read_text().splitlines() for path in folder.glob("log*")]
        return Traffic(rate_told(told.stdout), dict(ends(chain(*logs))))


def rate_told(output: str) -> float:
    """Return the transactions a second that pgbench has printed."""
    return float(output.rpartition("tps = ")[2].split()[0])


def started_after(ended: Mapping[tuple[int, int], int], starts: Iterable[Start]) -> Figures:
    """Return how soon jobs have started after their commits, in milliseconds.

    Below 0 if a job has started before its client had the answer.
    """
    took = [
        (moment - ended[client, number]) / 1000
        for client, number, moment in starts
        if (client, number) in ended
    ]
    return percentiles(took)


@frozen
class Enqueuer:
    """A queue whose jobs are enqueued by SQL.

    Attributes:
        programs: The folder of pgbench.
        working: Makes its tables ready and runs its worker, if it has one, as long as the block
            lasts; gives the DSN, the statement, and what waits until all jobs are done.
        starts: Ends the worker's notes and returns them.
    """

    programs: Path
    working: Callable[[], AbstractContextManager[Work]]

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The rows."""
        rows = {row: self._rate(row, clients) for row, clients in CLIENTS.items()}
        return {**rows, LONE: self._lone}

    def _rate(self, row: str, clients: int) -> Stage:
        def measure(_: int) -> Figures:
            traffic, latency = self._measured(clients)
            return {
                row: traffic.per_second,
                **{f"{row}_{part}": it for part, it in latency.items()},
            }

        return measure

    def _lone(self, _: int) -> Figures:
        latency = self._measured(1, LONE_RATE)[1]
        return {f"{LONE}_{part}": it for part, it in latency.items()}

    def _measured(self, clients: int, rate: int = 0) -> tuple[Traffic, Figures]:
        with self.working() as work:
            traffic = pgbench(self.programs, work.dsn, work.statement, clients, rate)
            starts = work.finish()
        return traffic, started_after(traffic.ended, starts) if starts else {}


@frozen
class Work:
    """A queue that is ready.

    Attributes:
        dsn: Where to enqueue.
        statement: What enqueues a job, with `:client_id` and `:number`.
        finish: Waits until all jobs are done; returns when each has started.
    """

    dsn: str
    statement: str
    finish: Callable[[], list[Start]]
