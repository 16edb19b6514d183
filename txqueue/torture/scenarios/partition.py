"""Network partitions: a node cut from the database, with or without peers, and peers from peers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from txqueue.torture.demands import ended_jobs, no_duplicates, running_on
from txqueue.torture.environment import Ground
from txqueue.torture.node import TortureNode, free_port, until
from txqueue.torture.proxied import proxied
from txqueue.torture.proxy import Address, Direction, Proxy
from txqueue.torture.scenario import scenario

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
# A statement without an answer is given up after ten seconds; the backoff grows to five.
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
def node_cut_linked(ground: Ground) -> None:
    """Its peers renew its lease: it keeps its jobs, and nothing runs twice."""
    _hold_all(ground, *_cut_node(ground, listen=True))
    ground.drain()
    no_duplicates(ground)


@scenario(
    "node_cut_alone",
    "a node is cut from the database for three leases, and no peer reaches it",
    needs=("unix socket",),
)
def node_cut_alone(ground: Ground) -> None:
    """Others take its jobs; it has ended jobs of groups by then, so that none overlap."""
    _hold_all(ground, *_cut_node(ground, listen=False))
    ground.drain()


@scenario(
    "node_cut_with_work",
    "a node is cut from the database that its peers reach, with more work than they can do",
    needs=("unix socket",),
)
def node_cut_with_work(ground: Ground) -> None:
    """The cut node gets no work and asks for none, as it could not read the jobs."""
    proxy, cut = _cut_node(ground, listen=True)
    other = next(node for node in ground.nodes if node is not cut)
    ground.start_client(rate=15, kinds=("slow:0.5", "noop"), node=other)
    ground.flow()
    with ground.fault("node cut", nodes=[cut]) as fault:
        proxy.hold()
        # Wait until its own heartbeat has failed, and its peers have its report.
        ground.rest(2 * ground.lease)
        began = ground.database.value("select clock_timestamp()")
        ground.rest(LEASES * ground.lease * ground.scale)
        ended = ground.database.value("select clock_timestamp()")
        given = ground.database.value(
            f"select count(*) from {ground.schema}.job join {ground.schema}.node_info as node"
            " using (node_id) where node.name = %s and assigned_at between %s and %s",
            (cut.name, began, ended),
        )
        proxy.heal()
        fault.evidence = f"{proxy.counts['held']} packets held" if proxy.counts["held"] else ""
    ground.expect(not given, f"nothing is assigned to it meanwhile, but {given} jobs")
    _expect_back(ground, cut)
    ground.drain()
    no_duplicates(ground)


@scenario(
    "node_deaf",
    "a node's statements reach the database, no answer reaches the node",
    needs=("unix socket",),
)
def node_deaf(ground: Ground) -> None:
    """Its writes hold; jobs assigned to it whose answer was lost run elsewhere or later."""
    proxy, cut = _cut_node(ground, listen=False)
    with ground.fault("node cut", nodes=[cut]) as fault:
        proxy.swallow(Direction.DOWN)
        ground.rest(LEASES * ground.lease * ground.scale)
        swallowed = proxy.counts["swallowed"]
        proxy.heal(forgets=False)
        fault.evidence = f"{swallowed} bytes of answers swallowed" if swallowed else ""
    _expect_back(ground, cut)
    ground.drain()


@scenario("peers_cut", "the links between masters are cut and refused for a while")
def peers_cut(ground: Ground) -> None:
    """All nodes continue through the database alone, and the connections come back."""
    nodes, proxies = _on_detours(ground, 2)
    ground.start_client(rate=20, kinds=LOAD[:3])
    ground.start_client(rate=10, kinds=LOAD[:3], node=nodes[0])
    ground.flow(10)
    ground.wait(lambda: _links(proxies), "the peers are linked")
    before = ended_jobs(ground)
    with ground.fault("peers cut") as fault:
        for proxy in proxies:
            proxy.refuses = True
        cuts = sum(proxy.cut() for proxy in proxies)
        ground.rest(LEASES * ground.lease * ground.scale / 2)
        ground.expect(ended_jobs(ground) > before + 20, "work goes on while peers are cut")
        for proxy in proxies:
            proxy.refuses = False
        refused = sum(proxy.counts["refused"] for proxy in proxies)
        fault.evidence = f"{cuts} links cut, {refused} refused" if cuts and refused else ""
    ground.wait(lambda: _links(proxies), "the peers are linked again")
    ground.figure("refused", refused)
    ground.drain()
    no_duplicates(ground)


@scenario("peers_late", "messages between masters are up to a second late, by varying times")
def peers_late(ground: Ground) -> None:
    """Messages arrive after changes in the database: nothing runs twice, and nothing is lost."""
    nodes, proxies = _on_detours(ground, 3)
    ground.start_client(rate=20, kinds=LOAD[:3])
    for node in nodes[:2]:
        ground.start_client(rate=20, kinds=("noop", "slow:0.1", "heavy:0.2"), node=node)
    ground.flow()
    ground.wait(lambda: _links(proxies) >= len(nodes), "the peers are linked")
    with ground.fault("peers late") as fault:
        for proxy in proxies:
            proxy.lateness = LATENESS
        ground.rest(LATE_FOR * ground.scale)
        late = sum(proxy.counts["late"] for proxy in proxies)
        for proxy in proxies:
            proxy.lateness = 0.0
        fault.evidence = f"{late} messages were late" if late else ""
    ground.figure("late", late)
    ground.drain()
    no_duplicates(ground)


def _cut_node(ground: Ground, *, listen: bool) -> tuple[Proxy, TortureNode]:
    """Start two nodes under load; the first reaches the database through a proxy."""
    proxy, dsn = proxied(ground, "n1", speaks_postgres=False)
    cut = ground.start_node("n1", dsn=dsn, listen=listen)
    other = ground.start_node("n2", listen=listen)
    for node in (cut, other):
        node.wait_up()
    ground.start_client(rate=5, kinds=LOAD)
    ground.flow(10)
    with _resting(ground, "n2"):
        ground.wait(lambda: len(running_on(ground, cut.name)) > 3, "the node to be cut has jobs")
    return proxy, cut


def _hold_all(ground: Ground, proxy: Proxy, cut: TortureNode) -> None:
    """Hold all data for some leases, and expect that the node recovers."""
    with ground.fault("node cut", nodes=[cut]) as fault:
        proxy.hold()
        ground.rest(LEASES * ground.lease * ground.scale)
        proxy.heal()
        fault.evidence = f"{proxy.counts['held']} packets held" if proxy.counts["held"] else ""
    _expect_back(ground, cut)


@contextmanager
def _resting(ground: Ground, name: str) -> Iterator[None]:
    """Pause a node's claims meanwhile, as the other one is slower behind its proxy."""
    ground.database.rows(f"select {ground.schema}.drain_node(%s, 'torture')", (name,))
    yield
    ground.database.rows(f"select {ground.schema}.undrain_node(%s, 'torture')", (name,))


def _expect_back(ground: Ground, cut: TortureNode) -> None:
    """Expect that a node that was cut works again by itself."""
    healed = time.monotonic()

    def is_back() -> bool:
        return any(run.node == cut.name and run.began > healed for run in ground.history().runs)

    with _resting(ground, "n2"):
        ground.expect(until(is_back, BACK_WITHIN), f"{cut.name} runs jobs within {BACK_WITHIN:g} s")
    ground.figure("back_after", round(time.monotonic() - healed, 1))


def _on_detours(ground: Ground, count: int) -> tuple[list[TortureNode], list[Proxy]]:
    """Start nodes that reach each other through proxies."""
    ground.database.rows(_DETOUR.format(schema=ground.schema))
    ports = [_detour(ground) for _ in range(count)]
    nodes = [
        ground.start_node(f"n{number}", listen=f"tcp:{port}:interface=127.0.0.1")
        for number, (port, _) in enumerate(ports, 1)
    ]
    for node in nodes:
        node.wait_up()
    return nodes, [proxy for _, proxy in ports]


def _detour(ground: Ground) -> tuple[int, Proxy]:
    """Choose a port for a node, and start a proxy for its peers."""
    port = free_port()
    proxy = ground.enter(Proxy(Address(port=port), speaks_postgres=False))
    table = f"{ground.schema}.torture_detour"
    ground.database.rows(f"insert into {table} values (%s, %s)", (port, proxy.port))
    return port, proxy


def _links(proxies: list[Proxy]) -> int:
    return sum(proxy.open_links for proxy in proxies)
