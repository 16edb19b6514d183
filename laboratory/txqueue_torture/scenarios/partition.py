"""Network partitions: a node cut from the database, with or without peers, and peers from peers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from txqueue_torture.demands import ended_jobs, no_duplicates, running_on
from txqueue_torture.environment import Testbed
from txqueue_torture.node import TortureNode, free_port, until
from txqueue_torture.proxied import proxied
from txqueue_torture.proxy import Address, Direction, Proxy
from txqueue_torture.scenario import scenario

__all__ = [
    "node_cut_alone",
    "node_cut_linked",
    "node_cut_with_work",
    "node_deaf",
    "peers_cut",
    "peers_late",
]

# The length of a partition in leases.
LEASES = 3
# The longest delay of peers' messages, and how long the delays last, in seconds.
LATENESS, LATE_FOR = 1.0, 12.0
# Seconds: a statement without an answer is given up after ten, and the backoff grows to five.
BACK_WITHIN = 20.0
LOAD = ("slow:0.5", "noop", "grouped:0.2", "slow:4", "noop", "grouped:1")
# Peers connect through a proxy instead of to each other's ports.
_DETOUR = """
    create table {schema}.torture_detour (port integer primary key, via integer not null);
    create function {schema}.torture_detour() returns trigger language plpgsql
    set search_path = {schema}, pg_temp as $$
    begin
        new.port := coalesce(
            (select via from torture_detour as known where known.port = new.port), new.port);
        return new;
    end $$;
    create trigger torture_detour before insert or update on {schema}.node_info
        for each row execute function {schema}.torture_detour()"""


@scenario(
    "node_cut_linked",
    "a node is cut from the database for three leases, its peers still reach it",
    needs=("unix socket",),
)
def node_cut_linked(testbed: Testbed) -> None:
    """Cut a node from the database: its peers renew its lease, it keeps its jobs."""
    _hold_all(testbed, *_cut_node(testbed, listen=True))
    testbed.drain()
    no_duplicates(testbed)


@scenario(
    "node_cut_alone",
    "a node is cut from the database for three leases, and no peer reaches it",
    needs=("unix socket",),
)
def node_cut_alone(testbed: Testbed) -> None:
    """Cut a node from database and peers: it ends jobs of groups before others run its jobs."""
    _hold_all(testbed, *_cut_node(testbed, listen=False))
    testbed.drain()


@scenario(
    "node_cut_with_work",
    "a node is cut from the database that its peers reach, with more work than they can do",
    needs=("unix socket",),
)
def node_cut_with_work(testbed: Testbed) -> None:
    """Cut a node while its peers have much work: no jobs are assigned to it meanwhile."""
    proxy, cut = _cut_node(testbed, listen=True)
    other = next(node for node in testbed.nodes if node is not cut)
    testbed.start_client(rate=15, kinds=("slow:0.5", "noop"), node=other)
    testbed.flow()
    with testbed.fault("node cut", nodes=[cut]) as fault:
        proxy.hold()
        # Wait until the node's heartbeat has failed, and its peers have learned that.
        testbed.rest(2 * testbed.lease)
        began = testbed.database.value("select clock_timestamp()")
        testbed.rest(LEASES * testbed.lease * testbed.scale)
        ended = testbed.database.value("select clock_timestamp()")
        job_ids = testbed.database.value(
            f"select count(*) from {testbed.schema}.job join {testbed.schema}.node_info as node"
            " using (node_id) where node.name = %s and assigned_at between %s and %s",
            (cut.name, began, ended),
        )
        proxy.heal()
        fault.evidence = f"{proxy.counts['held']} packets held" if proxy.counts["held"] else ""
    testbed.expect(not job_ids, f"nothing is assigned to it meanwhile, but {job_ids} jobs")
    _expect_back(testbed, cut)
    testbed.drain()
    no_duplicates(testbed)


@scenario(
    "node_deaf",
    "a node's statements reach the database, no answer reaches the node",
    needs=("unix socket",),
)
def node_deaf(testbed: Testbed) -> None:
    """Drop all answers to a node: its writes are valid; jobs of unanswered claims run later."""
    proxy, cut = _cut_node(testbed, listen=False)
    with testbed.fault("node cut", nodes=[cut]) as fault:
        proxy.swallow(Direction.DOWN)
        testbed.rest(LEASES * testbed.lease * testbed.scale)
        swallowed = proxy.counts["swallowed"]
        proxy.heal(forgets=False)
        fault.evidence = f"{swallowed} bytes of answers swallowed" if swallowed else ""
    _expect_back(testbed, cut)
    testbed.drain()


@scenario("peers_cut", "the links between masters are cut and refused for a while")
def peers_cut(testbed: Testbed) -> None:
    """Cut peers from each other: nodes continue through the database, and peers reconnect later."""
    nodes, proxies = _on_detours(testbed, 2)
    testbed.start_client(rate=20, kinds=LOAD[:3])
    testbed.start_client(rate=10, kinds=LOAD[:3], node=nodes[0])
    testbed.flow(10)
    testbed.wait(lambda: _links(proxies), "the peers are linked")
    before = ended_jobs(testbed)
    with testbed.fault("peers cut") as fault:
        for proxy in proxies:
            proxy.refuses = True
        cuts = sum(proxy.cut() for proxy in proxies)
        testbed.rest(LEASES * testbed.lease * testbed.scale / 2)
        testbed.expect(ended_jobs(testbed) > before + 20, "work goes on while peers are cut")
        for proxy in proxies:
            proxy.refuses = False
        refused = sum(proxy.counts["refused"] for proxy in proxies)
        fault.evidence = f"{cuts} links cut, {refused} refused" if cuts and refused else ""
    testbed.wait(lambda: _links(proxies), "the peers are linked again")
    testbed.figure("refused", refused)
    testbed.drain()
    no_duplicates(testbed)


@scenario("peers_late", "messages between masters are up to a second late, by varying times")
def peers_late(testbed: Testbed) -> None:
    """Delay messages between peers past changes in the database: no job is lost or runs twice."""
    nodes, proxies = _on_detours(testbed, 3)
    testbed.start_client(rate=20, kinds=LOAD[:3])
    for node in nodes[:2]:
        testbed.start_client(rate=20, kinds=("noop", "slow:0.1", "heavy:0.2"), node=node)
    testbed.flow()
    testbed.wait(lambda: _links(proxies) >= len(nodes), "the peers are linked")
    with testbed.fault("peers late") as fault:
        for proxy in proxies:
            proxy.lateness = LATENESS
        testbed.rest(LATE_FOR * testbed.scale)
        late = sum(proxy.counts["late"] for proxy in proxies)
        for proxy in proxies:
            proxy.lateness = 0.0
        fault.evidence = f"{late} messages were late" if late else ""
    testbed.figure("late", late)
    testbed.drain()
    no_duplicates(testbed)


def _cut_node(testbed: Testbed, *, listen: bool) -> tuple[Proxy, TortureNode]:
    """Start two nodes under load; return the first one's proxy to the database, and that node."""
    proxy, dsn = proxied(testbed, "n1", speaks_postgres=False)
    cut = testbed.start_node("n1", dsn=dsn, listen=listen)
    other = testbed.start_node("n2", listen=listen)
    for node in (cut, other):
        node.wait_up()
    testbed.start_client(rate=5, kinds=LOAD)
    testbed.flow(10)
    with _resting(testbed, "n2"):
        testbed.wait(lambda: len(running_on(testbed, cut.name)) > 3, "the node to be cut has jobs")
    return proxy, cut


def _hold_all(testbed: Testbed, proxy: Proxy, cut: TortureNode) -> None:
    """Hold back all data of a node for some leases, and expect that the node recovers."""
    with testbed.fault("node cut", nodes=[cut]) as fault:
        proxy.hold()
        testbed.rest(LEASES * testbed.lease * testbed.scale)
        proxy.heal()
        fault.evidence = f"{proxy.counts['held']} packets held" if proxy.counts["held"] else ""
    _expect_back(testbed, cut)


@contextmanager
def _resting(testbed: Testbed, name: str) -> Iterator[None]:
    """Drain a node during the block, so that the other one, slower behind its proxy, gets jobs."""
    testbed.database.rows(f"select {testbed.schema}.drain_node(%s, 'torture')", (name,))
    yield
    testbed.database.rows(f"select {testbed.schema}.undrain_node(%s, 'torture')", (name,))


def _expect_back(testbed: Testbed, cut: TortureNode) -> None:
    """Expect that a node that was cut works again by itself."""
    healed = time.monotonic()

    def is_back() -> bool:
        return any(run.node == cut.name and run.began > healed for run in testbed.history().runs)

    with _resting(testbed, "n2"):
        testbed.expect(
            until(is_back, BACK_WITHIN), f"{cut.name} runs jobs within {BACK_WITHIN:g} s"
        )
    testbed.figure("back_after", round(time.monotonic() - healed, 1))


def _on_detours(testbed: Testbed, count: int) -> tuple[list[TortureNode], list[Proxy]]:
    """Start nodes that reach each other through proxies."""
    testbed.database.rows(_DETOUR.format(schema=testbed.schema))
    ports = [_detour(testbed) for _ in range(count)]
    nodes = [
        testbed.start_node(f"n{number}", listen=f"tcp:{port}:interface=127.0.0.1")
        for number, (port, _) in enumerate(ports, 1)
    ]
    for node in nodes:
        node.wait_up()
    return nodes, [proxy for _, proxy in ports]


def _detour(testbed: Testbed) -> tuple[int, Proxy]:
    """Choose a port for a node, and start the proxy through which its peers connect to it."""
    port = free_port()
    proxy = testbed.enter(Proxy(Address(port=port), speaks_postgres=False))
    table = f"{testbed.schema}.torture_detour"
    testbed.database.rows(f"insert into {table} values (%s, %s)", (port, proxy.port))
    return port, proxy


def _links(proxies: list[Proxy]) -> int:
    return sum(proxy.open_links for proxy in proxies)
