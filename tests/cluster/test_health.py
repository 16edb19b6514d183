"""Real nodes that answer probes and inform a service manager."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cluster.app import Noted
from tests.cluster.commands import called, refused
from tests.cluster.database import Database
from tests.cluster.nodes import APP, PATIENCE, Node, Nodes, environment_of
from tests.cluster.peers import free_port
from tests.fixtures.databases import execute_apart
from tests.waiting import eventually, pause
from txqueue import WorkQueue


def probed(port: int, path: str) -> tuple[int, str]:
    """Ask a probe; returns the status and the line."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()


def health(node: Node, *arguments: str) -> CompletedProcess[str]:
    """Run `txqueue health` as the node's account would, without any database to ask."""
    place = {"TXQUEUE_DSN": "host=/nowhere", "TXQUEUE_STATE_DIR": str(node.folder)}
    return called("health", *arguments, **place)


def cancel_last(node: Node, job: int) -> None:
    """Cancel the job for which a node drains, and expect that it ends."""
    node.database.value("select txqueue.cancel(%s::bigint[], 'test')", [job])
    assert node.ended() == -signal.SIGTERM, node.log


async def test_probes_from_start_to_drain(nodes: Nodes, queue: WorkQueue) -> None:
    """Ready while it serves; while it drains it is live and not ready, until its job has ended."""
    port = free_port()
    options = "--health", f"tcp:{port}", "--workers", "1"
    node = await nodes.start(*options, TXQUEUE_LEASE="10").up()
    await eventually(lambda: probed(port, "/readyz") == (200, "ready"), PATIENCE)
    assert probed(port, "/livez") == (200, "live")
    assert health(node).returncode == health(node, "--ready").returncode == 0
    job = await queue.enqueue(Noted(600.0))
    await eventually(lambda: node.database.runs().get(job) == 1, PATIENCE)
    node.signal(signal.SIGTERM)
    await eventually(lambda: probed(port, "/readyz")[0] == 503, PATIENCE)
    assert probed(port, "/readyz")[1].startswith("draining")
    assert probed(port, "/livez")[0] == 200
    assert health(node).returncode == 0
    unready = health(node, "--ready", "--json")
    assert unready.returncode == 1
    assert json.loads(unready.stdout) | {"reason": ""} == {
        "live": True,
        "ready": False,
        "reason": "",
    }
    cancel_last(node, job)


async def test_an_outage_of_the_database_is_no_reason_to_restart(
    nodes: Nodes, db: Database, dsn18: str
) -> None:
    """The node stays live, says why it is not ready, and is ready again by itself."""
    port = free_port()
    node = nodes.start("--health", f"tcp:{port}", "--workers", "1", TXQUEUE_LEASE="4")
    await node.up()
    await eventually(lambda: probed(port, "/readyz")[0] == 200, PATIENCE)
    name = db.value("select current_database()")
    execute_apart(dsn18, "alter database {} with allow_connections false", name)
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    refused = "is not currently accepting connections"
    await eventually(lambda: refused in probed(port, "/readyz")[1], PATIENCE)
    assert probed(port, "/readyz")[0] == 503
    assert probed(port, "/livez") == (200, "live")
    execute_apart(dsn18, "alter database {} with allow_connections true", name)
    await eventually(lambda: probed(port, "/readyz") == (200, "ready"), PATIENCE)


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("nonsense", "is not an endpoint"),
        ("tcp:0", "port 0 is not within"),
        ("tcp:8751:interface=192.0.2.1", "choose another --health"),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(endpoint: str, said: str) -> None:
    """In one line, before the database is asked."""
    assert said in refused("--app", APP, "--health", endpoint, TXQUEUE_DSN="host=/nowhere")


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager, in the abstract namespace."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as receiver:
        receiver.bind(f"\0txqueue-test-{os.getpid()}")
        receiver.setblocking(False)
        yield receiver


def drain(inbox: socket.socket) -> int:
    """Read all messages that have arrived; returns how many."""
    count = 0
    while True:
        try:
            inbox.recv(4096)
        except BlockingIOError:
            return count
        count += 1


async def received(inbox: socket.socket, wanted: str) -> list[str]:
    """Read messages until one has the wanted text."""
    found: list[str] = []

    def has_come() -> bool:
        try:
            while not found or wanted not in found[-1]:
                found.append(inbox.recv(4096).decode())
        except BlockingIOError:
            return False
        return True

    await eventually(has_come, PATIENCE)
    return found


def supervised(nodes: Nodes, watchdog: str) -> Node:
    """Start a node that tells a service manager that it lives, in so many microseconds."""
    told = {"NOTIFY_SOCKET": f"@txqueue-test-{os.getpid()}", "WATCHDOG_USEC": watchdog}
    return nodes.start("--workers", "1", TXQUEUE_LEASE="10", **told)


async def test_a_service_manager_is_informed(
    nodes: Nodes, inbox: socket.socket, queue: WorkQueue
) -> None:
    """Ready once registered, then alive, more time while it drains; workers inherit nothing."""
    node = await supervised(nodes, "2000000").up()
    await received(inbox, "READY=1\nSTATUS=ready")
    await received(inbox, "WATCHDOG=1")
    (worker,) = node.workers
    inherited = [name.partition(b"=")[0] for name in environment_of(worker)]
    assert not {b"NOTIFY_SOCKET", b"WATCHDOG_USEC"} & {*inherited}
    job = await queue.enqueue(Noted(600.0))
    await eventually(lambda: node.database.runs().get(job) == 1, PATIENCE)
    node.signal(signal.SIGTERM)
    await received(inbox, "STOPPING=1\nSTATUS=draining")
    await received(inbox, "EXTEND_TIMEOUT_USEC=6000000")
    await received(inbox, "EXTEND_TIMEOUT_USEC=6000000")
    cancel_last(node, job)


async def test_a_master_that_stands_still_is_not_live(nodes: Nodes, inbox: socket.socket) -> None:
    """It feeds no watchdog and answers no probe, whose wait is limited; nor does none answer."""
    node = await supervised(nodes, "1000000").up()
    await received(inbox, "READY=1")
    node.signal(signal.SIGSTOP)
    await pause(0.2)
    drain(inbox)
    stopped = health(node, "--json")
    assert drain(inbox) == 0
    node.signal(signal.SIGCONT)
    await received(inbox, "WATCHDOG=1")
    said = json.loads(stopped.stdout)
    assert (stopped.returncode, said["live"], said["ready"]) == (1, False, False)
    assert "does not answer within 4 s" in said["reason"]
    node.stop()
    none = health(node)
    assert none.returncode == 1
    assert "none of this host listens" in none.stdout
    assert len(none.stdout.splitlines()) == 1
