"""A cluster that fails over by itself: Patroni, etcd, and three servers, one synchronous."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from attrs import define

from txqueue_torture.cluster import Cluster, Member
from txqueue_torture.demands import started_on
from txqueue_torture.environment import Testbed
from txqueue_torture.needs import CLUSTER
from txqueue_torture.probe import CommitProbe, longest_gap
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED
from txqueue_torture.server import dsn_of, pgbouncer_at, short_folder
from txqueue_torture.ticking import TICK

__all__ = ["HighlyAvailable"]

# Seconds after which work goes on once the cluster accepts commits, and for which nothing changes
# before and after the fault.
GOES_ON_WITHIN: Final = 2.0
FAILS_OVER_WITHIN: Final = 90.0
JOBS: Final = 8
_DONE: Final = """select extract(epoch from finished_at)::float8 from {schema}.job_done
    where work_type <> %s"""
_TICKS: Final = """select count(*), count(distinct not_before), max(runs)
    from {schema}.job join {schema}.schedule on name = job.work_type where job.work_type = %s"""
_RECEIVER: Final = "select pid from pg_stat_wal_receiver"
_PAUSE: Final = "select pg_wal_replay_pause()"

Act = Callable[[Cluster], str]


@define
class HighlyAvailable:
    """A cluster under load, and what is measured of it."""

    testbed: Testbed
    cluster: Cluster
    probe: CommitProbe

    @classmethod
    def started(
        cls,
        testbed: Testbed,
        dsn_of: Callable[[Cluster], str] = Cluster.dsn,
        settings: Mapping[str, Any] | None = None,
    ) -> HighlyAvailable:
        """Start a cluster, two nodes, and a client of each kind.

        Args:
            testbed: The scenario's testbed.
            dsn_of: Returns the DSN that nodes and clients use.
            settings: As for `Cluster`.
        """
        started = cls.empty(testbed, settings)
        dsn = dsn_of(started.cluster)
        app = ("txqueue_torture.ticking",)
        nodes = [testbed.start_node(name, dsn=dsn, app=app, listen=True) for name in ("n1", "n2")]
        for node in nodes:
            node.wait_up()
        testbed.start_client(rate=20, kinds=MIXED, dsn=dsn)
        testbed.start_client(rate=10, kinds=MIXED, dsn=dsn, node=nodes[0])
        testbed.flow(20)
        return started

    @classmethod
    def empty(cls, testbed: Testbed, settings: Mapping[str, Any] | None = None) -> HighlyAvailable:
        """Start a cluster without nodes and clients."""
        cluster = testbed.enter(Cluster(testbed.enter(short_folder()), settings))
        testbed.use(cluster.direct_dsn(), has_our_clock=True)
        probe = testbed.enter(CommitProbe(member.dsn() for member in cluster.members))
        return cls(testbed, cluster, probe)

    def suffer(self, kind: str, act: Act, heal: Callable[[], object] = lambda: None) -> None:
        """Inject a fault, wait until the cluster and the nodes work, heal it, and measure.

        Args:
            kind: The fault's name.
            act: Injects the fault, and returns the evidence.
            heal: Ends the fault, if it does not end by itself.
        """
        testbed = self.testbed
        began = time.monotonic()
        with testbed.fault(kind, snapshot=False) as fault:
            fault.evidence = act(self.cluster)
            failed_over = self.probe.wait(FAILS_OVER_WITHIN)
            testbed.expect(failed_over, f"the cluster works within {FAILS_OVER_WITHIN:g} s")
            # A process of the scenario may still ask the former primary.
            testbed.database.close()
            testbed.flow(20)
            heal()
            self.cluster.settle()
            testbed.flow(20)
        ended = time.monotonic()
        testbed.drain()
        self._measure(began, ended)

    def _measure(self, began: float, ended: float) -> None:
        testbed, offset = self.testbed, time.time() - time.monotonic()
        cluster_gap = longest_gap(self.probe.commits, began, ended)
        rows = testbed.database.rows(_DONE.format(schema=testbed.schema), (TICK,))
        done = (moment - offset for (moment,) in rows)
        self._expect("work", longest_gap(done, began, ended), cluster_gap)
        for name, moments in acknowledged(testbed).items():
            self._expect(name, longest_gap(moments, began, ended), cluster_gap)
        testbed.figure("cluster", round(cluster_gap, 2))
        self._expect_all_ticks()

    def _expect(self, name: str, gap: float, cluster_gap: float) -> None:
        self.testbed.figure(name, round(gap, 2))
        self.testbed.expect(
            gap <= cluster_gap + GOES_ON_WITHIN,
            f"{name} goes on within {GOES_ON_WITHIN:g} s of the cluster's {cluster_gap:.2f} s,"
            f" not after {gap:.2f} s",
        )

    def _expect_all_ticks(self) -> None:
        testbed = self.testbed
        ((jobs, moments, runs),) = testbed.database.rows(
            _TICKS.format(schema=testbed.schema), (TICK,)
        )
        testbed.figure("ticks", jobs)
        testbed.expect(jobs == moments == runs, f"a job each second: {jobs}, {moments}, {runs}")


def acknowledged(testbed: Testbed) -> dict[str, list[float]]:
    """Return when each client's enqueues were acknowledged, by the host's monotonic clock."""
    from txqueue_torture.history import lines_of

    moments: dict[str, list[float]] = {}
    for line in lines_of(testbed.folder):
        if line["what"] == "enqueue" and line["outcome"] == "acknowledged":
            moments.setdefault(line["intent"].partition("-")[0], []).append(line["mono"])
    return moments


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_primary(cluster: Cluster) -> str:
    return cluster.kill(cluster.primary)


def _switch_over(cluster: Cluster) -> str:
    return cluster.switch_over()


@scenario("ha_switchover", "a planned switchover", needs=CLUSTER, own_server=True)
def switchover(testbed: Testbed) -> None:
    """Switch over as an operator does: all goes on at the new primary."""
    HighlyAvailable.started(testbed).suffer("switchover", _switch_over)


@scenario("ha_killed", "the primary's processes killed", needs=CLUSTER, own_server=True)
def killed(testbed: Testbed) -> None:
    """Kill the primary's Patroni and PostgreSQL; the member comes back as a standby."""
    _lose_primary(HighlyAvailable.started(testbed))


def _lose_primary(available: HighlyAvailable) -> None:
    cluster = available.cluster
    member = cluster.primary
    available.suffer("primary lost", _kill_primary, lambda: cluster.start_member(member))


@scenario("ha_crashed", "the primary's postmaster killed", needs=CLUSTER, own_server=True)
def crashed(testbed: Testbed) -> None:
    """Kill the postmaster alone: Patroni fails over at once."""

    def crash(cluster: Cluster) -> str:
        member = cluster.primary
        postmaster = member.postmaster
        os.kill(postmaster, signal.SIGKILL)
        return f"postmaster {postmaster} of {member.name} killed"

    HighlyAvailable.started(testbed).suffer("postmaster lost", crash)


@scenario("ha_haproxy", "the primary killed, behind HAProxy", needs=CLUSTER, own_server=True)
def behind_haproxy(testbed: Testbed) -> None:
    """Kill the primary; nodes and clients know HAProxy's address only."""
    _lose_primary(HighlyAvailable.started(testbed, Cluster.haproxy))


@scenario(
    "ha_pgbouncer",
    "the primary killed, behind PgBouncer and HAProxy",
    needs=(*CLUSTER, "pgbouncer"),
    own_server=True,
)
def behind_pgbouncer(testbed: Testbed) -> None:
    """Kill the primary; nodes and clients know PgBouncer's address only."""
    folder = testbed.enter(short_folder())

    def pooled(cluster: Cluster) -> str:
        port = cluster.haproxy_port()
        target = f"host=127.0.0.1 port={port} user=postgres"
        pooler = pgbouncer_at(target, cluster.account, folder / "pb", "transaction")
        return dsn_of(testbed.enter(pooler))

    _lose_primary(HighlyAvailable.started(testbed, pooled))


@scenario("ha_cut_off", "the primary isolated from all", needs=CLUSTER, own_server=True)
def cut_off(testbed: Testbed) -> None:
    """Cut the primary off from etcd, its standbys, nodes and clients."""
    _isolate(testbed, lambda member: [*member.peers, member.clients])


@scenario(
    "ha_isolated",
    "the primary isolated from its cluster, but not from nodes and clients",
    needs=CLUSTER,
    own_server=True,
)
def isolated(testbed: Testbed) -> None:
    """Cut the primary off from etcd and its standbys, while nodes and clients still reach it."""
    _isolate(testbed, lambda member: member.peers)


def _isolate(testbed: Testbed, proxies_of: Callable[[Member], list[Any]]) -> None:
    available = HighlyAvailable.started(testbed)
    member = available.cluster.primary

    def isolate(_: Cluster) -> str:
        for proxy in proxies_of(member):
            proxy.hold()
        testbed.rest(1.0)
        held = sum(proxy.counts["held"] for proxy in proxies_of(member))
        return f"{held} messages from and to {member.name} held back"

    def heal() -> None:
        for proxy in proxies_of(member):
            proxy.heal()

    available.suffer("primary isolated", isolate, heal)


@scenario("ha_hangs", "the primary's processes stopped for a while", needs=CLUSTER, own_server=True)
def hangs(testbed: Testbed) -> None:
    """Stop all processes of the primary, which accepts connections but answers none; resume."""
    available = HighlyAvailable.started(testbed)
    stopped: list[int] = []

    def stop(cluster: Cluster) -> str:
        member = cluster.primary
        stopped.extend(member.pids())
        _send(stopped, signal.SIGSTOP)
        return f"{len(stopped)} processes of {member.name} stopped"

    available.suffer("primary stopped", stop, lambda: _send(stopped, signal.SIGCONT))


@scenario("ha_stalled", "the synchronous standby stops to answer", needs=CLUSTER, own_server=True)
def stalled(testbed: Testbed) -> None:
    """Stop the synchronous standby's receiver: all commits wait until Patroni takes another one."""
    available = HighlyAvailable.started(testbed)
    stopped: list[int] = []

    def stall(cluster: Cluster) -> str:
        member = cluster.synchronous
        with member.session() as session:
            stopped.append(int(session.value(_RECEIVER)))
        _send(stopped, signal.SIGSTOP)
        testbed.rest(1.0)
        return f"receiver {stopped[0]} of {member.name} stopped"

    available.suffer("commits stalled", stall, lambda: _send(stopped, signal.SIGCONT))


@scenario(
    "ha_lagging",
    "the primary killed while its synchronous standby has not applied what it has",
    needs=CLUSTER,
    own_server=True,
)
def lagging(testbed: Testbed) -> None:
    """Stop the synchronous standby's replay for a while, then kill the primary."""
    available = HighlyAvailable.started(testbed)
    with available.cluster.synchronous.session() as session:
        session.rows(_PAUSE)
    testbed.flow(100)
    _lose_primary(available)


@scenario("ha_etcd", "etcd lost, and back", needs=CLUSTER, own_server=True)
def etcd(testbed: Testbed) -> None:
    """Kill etcd, so that the primary demotes itself; start it again."""
    available = HighlyAvailable.started(testbed)

    def lose(cluster: Cluster) -> str:
        killed_etcd = cluster.kill_etcd()
        testbed.wait(lambda: not _has_primary(cluster), "the primary demotes itself", within=60.0)
        testbed.rest(2.0)
        cluster.start_etcd()
        return killed_etcd

    available.suffer("etcd lost", lose)


def _has_primary(cluster: Cluster) -> bool:
    return any(member.is_primary for member in cluster.members)


@scenario("ha_failsafe", "etcd lost, with failsafe_mode", needs=CLUSTER, own_server=True)
def failsafe(testbed: Testbed) -> None:
    """Kill etcd for longer than the ttl: with failsafe_mode the primary stays, and all goes on."""
    available = HighlyAvailable.started(testbed, settings={"failsafe_mode": True})

    def lose(cluster: Cluster) -> str:
        killed_etcd = cluster.kill_etcd()
        testbed.rest(25.0)
        testbed.expect(_has_primary(cluster), "the primary stays without etcd")
        cluster.start_etcd()
        return killed_etcd

    available.suffer("etcd lost", lose)


@scenario(
    "ha_taken_over",
    "a stopped node resumes after a switchover, when another node runs its jobs",
    needs=CLUSTER,
    own_server=True,
)
def taken_over(testbed: Testbed) -> None:
    """Resume a stopped node after a switchover and a rescue: its late reports change nothing."""
    cluster = HighlyAvailable.empty(testbed).cluster
    holder = testbed.start_node("n1", dsn=cluster.dsn()).wait_up()
    kinds = ("slow:3", "effect:3", "stumbling:n1")
    testbed.start_client(rate=40, kinds=kinds, count=JOBS, dsn=cluster.dsn())
    testbed.wait(lambda: len(started_on(testbed, "n1")) == JOBS, "all jobs run")
    with testbed.fault("stop node", nodes=[holder], frozen=True, still=True) as fault:
        switched = cluster.switch_over()
        testbed.start_node("n2", dsn=cluster.dsn()).wait_up()
        testbed.wait(lambda: len(started_on(testbed, "n2")) == JOBS, "all run elsewhere", 60.0)
        fault.evidence = f"{switched}; n2 ran {JOBS} jobs of n1, which stood still"
    testbed.drain()
