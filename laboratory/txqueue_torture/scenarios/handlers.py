"""Handlers that use their process as applications do: child processes, and threads that hang."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from txqueue.system.processes import STATE, children_of, stat_of
from txqueue_torture.demands import no_duplicates, nothing_spent
from txqueue_torture.environment import Testbed
from txqueue_torture.node import TortureNode
from txqueue_torture.scenario import scenario

__all__ = ["child_processes", "hung_threads"]

APP: Final = ("txqueue_torture.handlers",)
CHILDREN: Final = ("program", "quiet", "noop")
CAPACITY: Final = 3
KILL_STUCK: Final = 5
# Seconds.
NOTICED_WITHIN: Final = 30.0
# Seconds: the timeout of the jobs, `KILL_STUCK`, and the start of another worker.
REPLACED_WITHIN: Final = 20.0
# By its command line, what the kind `quiet` has started.
SLEEP: Final = b"sleep\x000.1"


@scenario("child_processes", "programs that handlers wait for are killed, and SIGCHLD is replaced")
def child_processes(testbed: Testbed) -> None:
    """Wait for programs in handlers: each end is noticed, and no zombie stays."""
    nodes = [testbed.start_node(name, app=APP) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=CHILDREN, app=APP)
    testbed.flow()
    with testbed.fault("end programs", snapshot=False) as fault:
        killed = 0
        for _ in range(int(3 * testbed.scale)):
            testbed.wait(lambda: _programs(nodes), "handlers wait for programs", every=0.01)
            killed += _end_programs(nodes)
        testbed.start_client(rate=10, kinds=("spoils",), count=8, app=APP).wait()
        fault.evidence = f"{killed} programs were ended, and the handler of SIGCHLD replaced"
    testbed.flow(40, NOTICED_WITHIN)
    for client in testbed.clients:
        client.stop()
    testbed.wait(lambda: not testbed.database.live_jobs(), "each end of a program is noticed")
    testbed.wait(lambda: not any(map(_is_zombie, _children(nodes))), "no zombie stays")
    testbed.drain()
    no_duplicates(testbed)
    testbed.expect_all_done()


def _children(nodes: list[TortureNode]) -> list[int]:
    return [pid for node in nodes for worker in node.worker_pids() for pid in children_of(worker)]


def _programs(nodes: list[TortureNode]) -> list[int]:
    return [pid for pid in _children(nodes) if _command(pid).startswith(SLEEP)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _end_programs(nodes: list[TortureNode]) -> int:
    killed = 0
    for pid in _programs(nodes):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed += 1
    return killed


def _is_zombie(pid: int) -> bool:
    try:
        return stat_of(pid)[STATE] == "Z"
    except OSError:
        return False


@scenario("hung_threads", "handlers hang in all threads of a worker, beyond their timeouts")
def hung_threads(testbed: Testbed) -> None:
    """Let threads hang: their worker is replaced, and what waited for it runs."""
    node = testbed.start_node(
        "n1",
        workers=1,
        capacity=CAPACITY,
        app=APP,
        options=("--kill-stuck", str(KILL_STUCK)),
    ).wait_up()
    testbed.start_client(rate=10, kinds=("noop",))
    testbed.flow()
    before = set(node.worker_pids())
    with testbed.fault("hang threads", nodes=[node], snapshot=False) as fault:
        testbed.start_client(rate=50, kinds=("hangs",), count=CAPACITY, app=APP).wait()
        testbed.wait(lambda: "can start no job" in node.log, "the worker is found stuck")
        testbed.wait(
            lambda: node.worker_pids() and not before & set(node.worker_pids()),
            "the worker is replaced",
            REPLACED_WITHIN,
        )
        fault.evidence = f"{CAPACITY} threads hung in {sorted(before)}, which is gone"
    testbed.flow()
    testbed.drain()
    nothing_spent(testbed)
    testbed.expect_all_done()
