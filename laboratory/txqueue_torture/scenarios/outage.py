"""A database that is down for long, and one that cannot write for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from txqueue_torture.demands import ended_jobs, no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.node import until
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED
from txqueue_torture.server import Server, dsn_of, short_folder, small_disk

__all__ = ["database_down", "disk_full"]

NODES = 4
DOWN = 8.0
# The most attempts to connect that a node may make per second: over the whole outage, and in its
# worst second, in which each of up to five connections is lost and may be refused twice by a server
# that is slow to stop. The backoff is a fifth of the lease, which is short here.
MOST_RATE, MOST_AT_ONCE = 5.0, 15
MEGABYTES = 110
_FULL = "No space left on device"
_SMALL = {"max_wal_size": "32MB", "min_wal_size": "32MB", "shared_buffers": "16MB"}


@scenario("database_down", "the database is down for long, with many nodes on it", own_server=True)
def database_down(testbed: Testbed) -> None:
    """Stop and start the database: nodes try to connect rarely, and not all at once afterwards."""
    server = testbed.enter(Server(testbed.enter(short_folder()) / "pg"))
    testbed.use(server.dsn)
    proxies = [_door(testbed, server, f"n{number}") for number in range(1, NODES + 1)]
    nodes = [
        testbed.start_node(f"n{number}", workers=1, dsn=dsn)
        for number, (_, dsn) in enumerate(proxies, 1)
    ]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=MIXED)
    testbed.flow(10)
    with testbed.fault("database down") as fault:
        began = time.monotonic()
        server.stop()
        testbed.rest(DOWN * testbed.scale)
        ended = time.monotonic()
        server.start()
        fault.evidence = f"no server for {ended - began:.1f} s"
    _expect_calm(testbed, [proxy for proxy, _ in proxies], began, ended)
    _expect_progress(testbed)
    testbed.drain()
    no_duplicates(testbed)


@scenario(
    "disk_full", "the disk fills up, and is freed after a while", needs=("mount",), own_server=True
)
def disk_full(testbed: Testbed) -> None:
    """Fill the disk: acknowledged jobs are kept, and work continues once there is room."""
    disk = testbed.enter(small_disk(testbed.enter(short_folder()) / "disk", MEGABYTES))
    server = testbed.enter(Server(disk / "pg", _SMALL))
    testbed.use(server.dsn)
    nodes = [testbed.start_node("n1"), testbed.start_node("n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=MIXED)
    testbed.start_client(rate=10, kinds=MIXED, node=nodes[0])
    testbed.flow(10)
    ballast = disk / "ballast"
    with testbed.fault("database down") as fault:
        _fill(ballast)
        # PostgreSQL can still write into allocated files for a while.
        testbed.wait(lambda: _is_felt(server, ballast), "the disk is full")
        testbed.rest(3 * testbed.scale)
        fault.evidence = _FULL if _FULL in server.log else ""
        ballast.unlink()
        testbed.figure("panics", server.log.count("PANIC"))
        testbed.figure("server_died", not server.postmaster)
        if not server.postmaster:
            server.stop()
            server.start()
    _expect_progress(testbed)
    testbed.drain()
    no_duplicates(testbed)


def _door(testbed: Testbed, server: Server, name: str) -> tuple[Proxy, str]:
    """Start a proxy that counts the attempts of one node to connect; return it and its DSN."""
    folder = testbed.folder / f"via-{name}"
    folder.mkdir()
    address = server.address.path
    assert address is not None
    here = Address(folder / address.name)
    return testbed.enter(Proxy(server.address, here, speaks_postgres=False)), dsn_of(here)


def _expect_calm(testbed: Testbed, proxies: Sequence[Proxy], began: float, ended: float) -> None:
    """Expect few attempts to connect during the outage, and not too many at its end."""
    after = ended + 5.0
    testbed.wait(lambda: time.monotonic() > after, "the first seconds after the return")
    meanwhile = [_between(proxy, began, ended) for proxy in proxies]
    rates = [len(times) / (ended - began) for times in meanwhile]
    bursts = [_burst(times) for times in meanwhile]
    returns = [moment for proxy in proxies for moment in _between(proxy, ended, after)]
    testbed.figure("attempts_per_node_second", round(max(rates), 2))
    testbed.figure("attempts_in_worst_second", max(bursts))
    testbed.figure("worst_second_of_all_at_return", _burst(sorted(returns)))
    testbed.expect(max(rates) <= MOST_RATE, f"{max(rates):.2f} attempts a node and second")
    testbed.expect(max(bursts) <= MOST_AT_ONCE, f"{max(bursts)} attempts of a node in a second")
    # Each node needs up to five connections, and a busy machine lets as many attempts fail.
    testbed.expect(len(returns) <= 10 * len(proxies), f"{len(returns)} attempts at the return")


def _between(proxy: Proxy, began: float, ended: float) -> list[float]:
    return [moment for moment in proxy.accepted_at if began <= moment < ended]


def _burst(times: Sequence[float]) -> int:
    """Return the most attempts to connect within any one second."""
    return max((sum(first <= moment < first + 1 for moment in times) for first in times), default=0)


def _expect_progress(testbed: Testbed) -> None:
    before = ended_jobs(testbed)
    goes_on = until(lambda: ended_jobs(testbed) > before, 15.0)
    testbed.expect(goes_on, "jobs are done within 15 s of the database's return")


def _is_felt(server: Server, ballast: Path) -> bool:
    """Tell whether the server could not write; if it still can, fill the freed space."""
    if _FULL not in server.log:
        _fill(ballast)
    return _FULL in server.log


def _fill(ballast: Path) -> None:
    """Write until the disk is full."""
    block = bytes(1 << 16)
    with ballast.open("ab", buffering=0) as file:
        while True:
            try:
                if file.write(block) < len(block):
                    return
            except OSError:
                return
