"""An hour under load, random faults and a long reader: what grows, and is anything lost?

    python -m benchmarks.soak [seconds [jobs a second [folder for the records]]]

Three nodes on a fresh embedded server. The first is never killed: its master and its workers, and
the server's processes, are watched for growth. The others are killed, restarted and stopped, and
lose their connections now and then, as clients do. A reader keeps a snapshot for ten minutes at a
time. At the end the checker of `txqueue torture` decides over everything that was recorded. Exits
with 1 on a fault.
"""

from __future__ import annotations

import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from attrs import define, field
from rich.console import Console

from txqueue.embedded import EmbeddedServer
from txqueue.store.inquiries.reader import Session
from txqueue_torture.checker import check
from txqueue_torture.environment import Testbed
from txqueue_torture.figures import figures_of
from txqueue_torture.freezing import frozen
from txqueue_torture.node import TortureNode

LEASE = 10.0
KINDS = (*["noop"] * 3, "slow", "customer", "effect", "failing", "delayed", "noop", "heavy")
SAMPLE_EVERY, FAULT_EVERY, READER_TURN = 10.0, 20.0, 600.0
# What comes before this part of the run warms up.
WARM = 1 / 6
# A process that was watched for less than this part of the rest tells no growth per hour; nor do
# its first minutes: a connection of PostgreSQL's fills its caches in them, up to 22 MiB.
LONG = 0.3
FILLING = 300.0
# These live as long as their node. Connections are replaced every half hour, and so those of a kind
# are looked at together: does one that begins later take more?
LASTING = ("master", "worker")
MEBIBYTE = 1 << 20

# What is done or was tried is kept, and so grows as it should; all else must not.
SIZE = """select coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %s and c.relkind = 'r'
      and c.relname !~ '^job_(done|cancelled|failed)|^failed_attempt|^torture'"""
HISTORY = """select coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %s and c.relkind = 'r'
      and c.relname ~ '^job_(done|cancelled|failed)|^failed_attempt'"""
SERVED = """select pid, application_name from pg_stat_activity
    where application_name like 'txqueue%%' and application_name !~ '(torture|diary)$'"""
# Those of the node that is watched live on, so that the server's processes are watched too.
CUT = """select count(pg_terminate_backend(pid)) from pg_stat_activity
    where application_name like 'txqueue%%' and application_name !~ '(torture|diary| n1)$'"""


@define
class Watch:
    """Samples of memory by process, and of the relations' size."""

    testbed: Testbed
    steady: TortureNode
    memory: dict[tuple[str, int], list[tuple[float, float]]] = field(
        factory=lambda: defaultdict(list)
    )
    sizes: list[tuple[float, float]] = field(factory=list)
    stopped: Event = field(factory=Event)

    def told(self, began: float) -> dict[str, Any]:
        """Return all samples, each with its second of the run."""
        series = {f"{what} {pid}": samples for (what, pid), samples in self.memory.items()}
        return {
            what: [[round(at - began), value] for at, value in samples]
            for what, samples in {**series, "relations": self.sizes}.items()
        }

    def go_on(self) -> None:
        """Sample until stopped."""
        with self.testbed.database.session() as session:
            while not self.stopped.wait(SAMPLE_EVERY):
                self.sample(session)

    def sample(self, session: Session) -> None:
        """Look once."""
        now = time.monotonic()
        self.sizes.append((now, session.value(SIZE, (self.testbed.schema,))))
        its = {self.steady.pid: "master", **dict.fromkeys(self.steady.worker_pids(), "worker")}
        served = {pid: f"server for {name}" for pid, name in session.rows(SERVED)}
        for pid, what in (its | served).items():
            if (anonymous := own_memory(pid)) is not None:
                self.memory[what, pid].append((now, anonymous))


def own_memory(pid: int) -> float | None:
    """Return the MiB that a process has of its own; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else None


def growth(samples: list[tuple[float, float]]) -> float:
    """Return the slope of samples per hour, by least squares."""
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread


def is_long(samples: list[tuple[float, float]], seconds: float) -> bool:
    """Whether samples are of long enough to tell of an hour."""
    moments = [at for at, _ in samples]
    return bool(moments) and max(moments) - min(moments) >= LONG * seconds * (1 - WARM)


@contextmanager
def reading(testbed: Testbed) -> Iterator[None]:
    """Keep a snapshot open, a new one every ten minutes."""
    stopped = Event()

    def read() -> None:
        while not stopped.is_set():
            with (
                testbed.database.session() as session,
                session.transaction("isolation level repeatable read"),
            ):
                session.rows(f"select count(*) from {testbed.schema}.node_info")
                stopped.wait(READER_TURN)

    thread = Thread(target=read, daemon=True)
    thread.start()
    yield
    stopped.set()
    thread.join()


def kill_worker(testbed: Testbed, nodes: list[TortureNode]) -> None:
    """Kill a worker of a node that is not watched."""
    node = random.choice(nodes[1:])
    pids = node.worker_pids()
    if pids:
        with testbed.fault("kill worker", nodes=[node], still=True) as fault:
            fault.pids = {node.kill_worker(random.randrange(len(pids)))}
            fault.evidence = f"{fault.pids} of {node.name}"


def kill_master(testbed: Testbed, nodes: list[TortureNode]) -> None:
    """Kill a master of a node that is not watched, and restart it later."""
    place = random.randrange(1, len(nodes))
    node = nodes[place]
    with testbed.fault("kill master", nodes=[node], still=True) as fault:
        fault.evidence = f"{node.kill_master()} was {node.name}"
    testbed.rest(LEASE)
    nodes[place] = testbed.start_node(node.name, lease=LEASE, listen=True, capacity=20)


def restart(testbed: Testbed, nodes: list[TortureNode]) -> None:
    """Drain a node that is not watched, and restart it."""
    place = random.randrange(1, len(nodes))
    nodes[place].stop()
    nodes[place] = testbed.start_node(nodes[place].name, lease=LEASE, listen=True, capacity=20)


def stop_for_long(testbed: Testbed, nodes: list[TortureNode]) -> None:
    """Stop all processes of a node that is not watched for longer than a lease."""
    node = random.choice(nodes[1:])
    with (
        testbed.fault("freeze node", nodes=[node], frozen=True, snapshot=False) as fault,
        frozen(node.pids()) as still,
    ):
        fault.evidence = f"{len(still)} processes of {node.name} stood still"
        testbed.rest(1.5 * LEASE)


def cut(testbed: Testbed, nodes: list[TortureNode]) -> None:  # noqa: ARG001 - of all nodes
    """Terminate the connections of clients, and of the nodes that are not watched."""
    with testbed.fault("backends terminated", snapshot=False) as fault:
        fault.evidence = f"{testbed.database.value(CUT)} connections"


FAULTS: tuple[Callable[[Testbed, list[TortureNode]], None], ...] = (
    kill_worker,
    kill_worker,
    kill_worker,
    kill_master,
    restart,
    stop_for_long,
    cut,
)


def soak(testbed: Testbed, seconds: float, rate: float) -> dict[str, Any]:
    """Carry it out; returns the figures."""
    nodes = [
        testbed.start_node(name, lease=LEASE, listen=True, capacity=20)
        for name in ("n1", "n2", "n3")
    ]
    for node in nodes:
        node.wait_up()
    watch = Watch(testbed, nodes[0])
    watching = Thread(target=watch.go_on, daemon=True)
    watching.start()
    began = time.monotonic()
    testbed.start_client(rate=rate / 2, kinds=KINDS)
    testbed.start_client(rate=rate / 2, kinds=KINDS, node=nodes[0])
    faults = 0
    with reading(testbed):
        while (left := began + seconds - time.monotonic()) > 0:
            testbed.rest(min(FAULT_EVERY, left))
            if left > 2 * FAULT_EVERY:
                random.choice(FAULTS)(testbed, nodes)
                faults += 1
                restore(testbed, nodes)
    watch.stopped.set()
    watching.join()
    live = testbed.database.live_jobs()
    bytes_kept = testbed.database.value(HISTORY, (testbed.schema,))
    (testbed.folder / "samples.json").write_text(json.dumps(watch.told(began)))
    testbed.drain()
    return {
        "faults": faults,
        "waiting_at_the_end": live,
        **grown(watch, began, seconds),
        "history_mib": round(bytes_kept / MEBIBYTE, 1),
    }


def restore(testbed: Testbed, nodes: list[TortureNode]) -> None:
    """Wait until all nodes have workers again; to read all the records for it would take long."""
    for node in nodes:
        testbed.wait(node.worker_pids, f"{node.name} has workers")


def grown(watch: Watch, began: float, seconds: float) -> dict[str, Any]:
    """Say what grew from the end of the warming up on."""
    warm = began + WARM * seconds
    slopes: dict[str, list[float]] = defaultdict(list)
    served: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (what, _), samples in watch.memory.items():
        filled = max(warm, samples[0][0] + FILLING)
        late = [sample for sample in samples if sample[0] >= filled]
        if what not in LASTING:
            served[what] += late
        elif is_long(late, seconds):
            slopes[what].append(round(growth(late), 3))
    slopes |= {
        what: [round(growth(late), 3)] for what, late in served.items() if is_long(late, seconds)
    }
    early = max(size for at, size in watch.sizes if at < warm)
    later = max(size for at, size in watch.sizes if at >= warm)
    return {
        "mib_an_hour": dict(slopes),
        "mib": {
            f"{what} {pid}": [round(samples[0][1], 1), round(samples[-1][1], 1)]
            for (what, pid), samples in watch.memory.items()
            if what in LASTING
        },
        "relations_first_mib": round(early / MEBIBYTE, 2),
        "relations_later_mib": round(later / MEBIBYTE, 2),
        "relations_ratio": round(later / early, 2),
    }


def main(seconds: float, rate: float, kept: str) -> int:
    """Run and print."""
    folder = Path(kept or tempfile.mkdtemp(prefix="txqueue-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    # A reader must not be waited for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with EmbeddedServer() as dsn:
        testbed = Testbed(folder, lease=LEASE)
        try:
            testbed.use(dsn)
            figures = soak(testbed, seconds, rate)
            history = testbed.history()
        finally:
            testbed.close()
    violations = [str(each) for each in check(history)]
    told = {"seconds": seconds, "rate": rate, **figures_of(history), **figures}
    Console().print_json(data={**told, "violations": violations[:50]})
    return 1 if violations else 0


if __name__ == "__main__":
    seconds, rate, kept = [*sys.argv[1:], *("3600", "200", "")[len(sys.argv) - 1 :]]
    sys.exit(main(float(seconds), float(rate), kept))
