"""Connections cut just before or just after a COMMIT."""

from __future__ import annotations

from collections.abc import Callable

from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.proxied import proxied
from txqueue_torture.proxy import Cut, Proxy
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED

__all__ = ["commit_cut_enqueue", "commit_cut_handler", "commit_cut_node"]

PHASE = 2.5
# How often clients are cut at most, until both outcomes of an unknown commit were seen.
ROUNDS = 6
_OF_NODES = (
    "next_job(",
    "complete(",
    "settle(",
    "heartbeat(",
    "release(",
    "started(",
    "direct_jobs(",
)


@scenario(
    "commit_cut_enqueue",
    "clients' connections are cut as they commit, before or after",
    needs=("unix socket",),
)
def commit_cut_enqueue(testbed: Testbed) -> None:
    """Cut clients at their commits: some outcomes are unknown to them, but all promises hold."""
    node = testbed.start_node("n1").wait_up()
    proxy, dsn = proxied(testbed, "c")
    kinds = ("noop", "grouped", "effect", "rolled_back", "noop", "delayed")
    testbed.start_client(rate=15, kinds=kinds, dsn=dsn)
    testbed.start_client(rate=15, kinds=kinds, dsn=dsn, node=node)
    for _ in range(ROUNDS):
        _cut(testbed, proxy, matches=_is_enqueue, every=5)
        if all(_unknown(testbed)):
            break
    testbed.drain()
    there, lost = _unknown(testbed)
    testbed.figure("unknown", len(there | lost))
    testbed.figure("unknown_there", len(there))
    testbed.expect(there and lost, "some of the unknown are there and some are not")
    no_duplicates(testbed)


@scenario(
    "commit_cut_handler",
    "handlers' connections are cut as job.transaction() commits",
    needs=("unix socket",),
)
def commit_cut_handler(testbed: Testbed) -> None:
    """Cut handlers at their commits: each job writes its row once, no committed job runs again."""
    proxy, dsn = proxied(testbed, "n1")
    testbed.start_node("n1", dsn=dsn).wait_up()
    testbed.start_client(rate=20, kinds=("effect:0.02", "noop", "effect:0.02"))
    _cut(testbed, proxy, matches=_is_commit, every=4)
    testbed.drain()
    no_duplicates(testbed)


@scenario(
    "commit_cut_node",
    "nodes' connections are cut at their claims and completions",
    needs=("unix socket",),
)
def commit_cut_node(testbed: Testbed) -> None:
    """Cut nodes at claims and completions: claimed jobs start later, completions are written."""
    proxies, nodes = [], []
    for name in ("n1", "n2"):
        proxy, dsn = proxied(testbed, name)
        proxies.append(proxy)
        nodes.append(testbed.start_node(name, dsn=dsn))
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=MIXED)
    testbed.start_client(rate=10, kinds=MIXED, node=nodes[0])
    _cut(testbed, *proxies, matches=_is_of_node, every=7)
    testbed.drain()
    no_duplicates(testbed)


def _unknown(testbed: Testbed) -> tuple[set[str], set[str]]:
    """Return which jobs of unknown outcome are there, and which are not."""
    history = testbed.history()
    enqueues = history.enqueues.values()
    unknown = {enqueued.intent for enqueued in enqueues if enqueued.outcome == "unknown"}
    there = unknown & {job.intent for job in history.jobs.values()}
    return there, unknown - there


def _cut(testbed: Testbed, *proxies: Proxy, matches: Callable[[str], bool], every: int) -> None:
    """Cut connections before the server gets a matching statement, later just after it has."""
    testbed.flow(10)
    for is_after in (False, True) * int(testbed.scale):
        side = "after" if is_after else "before"
        with testbed.fault(f"cut {side} commit") as fault:
            for proxy in proxies:
                proxy.cut_at(Cut(matches, is_after, every))
            testbed.rest(PHASE)
            for proxy in proxies:
                proxy.cut_at(None)
            cuts = sum(proxy.counts[side] for proxy in proxies)
            fault.evidence = f"{cuts} connections cut {side} it" if cuts else ""
        testbed.figure(f"cut_{side}", cuts)


def _is_commit(sql: str) -> bool:
    return sql.endswith("commit")


def _is_enqueue(sql: str) -> bool:
    return _is_commit(sql) or ".enqueue" in sql


def _is_of_node(sql: str) -> bool:
    return any(call in sql for call in _OF_NODES)
