"""A queue to which anything may happen, and what then happens to its jobs.

Each step is an act of an application, a node or an operator. Then all jobs that have not ended are
explained, and in a transaction that is rolled back all nodes go on without any further act: they
claim until nothing is left to claim, jobs end, and time passes, until nothing changes any more.
What `explain` has said must fit both.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from tests.db.explained_future import (
    LATER,
    Session,
    beat,
    claimed,
    claimed_until_quiet,
    complete,
    let_all_end,
)
from tests.db.explained_nodes import CLOSED, HeldWorker, ModelledNode
from txqueue.policy.findings.explanation import judged
from txqueue.policy.findings.reason import Blocker, Gravity
from txqueue.policy.placement.room import Room

__all__ = ["Explained", "State", "World", "lies"]

QUEUES: Final = ("mail", "shop")
TENANTS: Final = ("ann", "bob")
GROUPS: Final = ("g", "h")
KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "pair": {"group_limit": 2, "group_rate": {"rate": 0.001, "burst": 3}},
    "secret": {},
}
UNKNOWN: Final = "unknown"
# More jobs than these at a time only make the comparison slow.
MOST_LIVE, MOST_NODES = 9, 3
FAR: Final = "2100-01-01T00:00:00Z"
_EXPLAINED: Final = "select job_id, facts::text from txqueue.explain_each(%s)"


@frozen
class Explained:
    """A job's facts, and what happened to the job without any further act."""

    job_id: int
    facts: str
    is_claimed: bool
    has_ended: bool

    def blocker(self) -> Blocker:
        """The explanation of the facts."""
        return judged(json.loads(self.facts))

    def is_exempt(self) -> bool:
        """Whether it may wait for other jobs without end: each is explained by itself."""
        facts = json.loads(self.facts)
        waits = facts["job"]["group"] or facts["precedes"] or facts["parents"]
        return bool(waits) and self.blocker().gravity is Gravity.COURSE

    def lie(self) -> str | None:
        """What is untrue of the explanation; None if it is true."""
        blocker = self.blocker()
        untrue = _untrue(blocker, self)
        return untrue and f"job {self.job_id}: {untrue}: {blocker}"


@frozen
class State:
    """The jobs of one state, and the last acts that led to it."""

    acts: Sequence[str]
    jobs: Sequence[Explained]


def lies(states: Iterable[State]) -> Iterator[str]:
    """Yield what is untrue of the explanations of the jobs of some states."""
    for state in states:
        for job in state.jobs:
            if lie := job.lie():
                yield f"{lie}\nfacts: {job.facts}\nafter: {'; '.join(state.acts)}"


def _untrue(blocker: Blocker, job: Explained) -> str | None:
    if blocker.gravity is Gravity.COURSE and not job.has_ended and not job.is_exempt():
        return "it never runs without an act"
    if blocker.gravity is not Gravity.COURSE and job.has_ended:
        return "it runs without any act"
    if blocker.reason == "next" and not job.is_claimed:
        return "it is not claimed at once"
    if job.is_claimed and not _may_be_claimed(blocker):
        return "it is claimed at once"
    return None


def _may_be_claimed(blocker: Blocker) -> bool:
    """Whether what is said leaves open that the next claims take the job, after others."""
    are_before = re.search("jobs? go(es)? first", blocker.detail) is not None
    is_soon = "in a moment" in blocker.remedy or are_before
    is_behind = blocker.reason == "group" and "goes first" in blocker.detail
    return blocker.reason in ("next", "assigned", "running", "rescue") or is_soon or is_behind


class World:
    """The queue, its nodes, and what may happen."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.session = Session(dsn)
        self.random = random.Random(seed)
        self.session.value("select setseed(%s)", self.random.random())
        self.nodes: list[ModelledNode] = []
        self.acts: list[str] = []
        self._started = 0

    def states(self, number: int) -> Iterator[State]:
        """Go through so many states."""
        self.start_node()
        for _ in range(number):
            self.act()
            yield self.state()

    def act(self) -> None:
        """Do one thing at random that has an effect."""
        live = self.ids("waiting", "ready", "assigned")
        is_full = len(live) >= MOST_LIVE
        acts = [self.enqueue] * (0 if is_full else 6) + [self.end] * (9 if is_full else 3)
        acts += [self.claim] * 5 + [self.start_node] * (3 * (MOST_NODES - len(self.nodes)))
        acts += [self.turn_worker] * 2 + [self.hurry] + [self.drain, self.suspect, self.time_passes]
        acts += [self.stop_node, self.fall_silent] if self.random.random() < 0.5 else []
        acts += [self.throttle, self.pause, self.resume, self.resume]
        acts += [self.limit, self.lift, self.lift]
        acts += [self.cancel, self.retry]
        while True:
            chosen = self.random.choice(acts)
            if done := chosen():
                self.acts = [*self.acts[-30:], f"{chosen.__name__} {done}"]
                return

    # Acts of applications.

    def enqueue(self) -> object:
        """Enqueue a job with whatever options."""
        choose = self.random.choice
        job: dict[str, Any] = {
            "work_type": choose([*KINDS, *KINDS, *KINDS, UNKNOWN]),
            "payload": {},
            "queue": choose(QUEUES),
            "priority": choose([0, 4, 4, 7, 9]),
            "weight": choose([1, 1, 1, 2, 3, 6]),
            "tenant": choose([None, None, *TENANTS]),
            "group": choose([None, None, *GROUPS]),
            **choose([{}, {}, {"not_before": choose([FAR, "infinity"])}]),
            **choose([{}, {}, {"unique": "k", "unique_mode": "again"}]),
        }
        if job["work_type"] == "pair" and job["group"]:
            # Where two jobs of a group may run, a claim passes over one between them that this
            # node may not take: all jobs of such a group are alike.
            job |= {"group": "pairs", "queue": "mail", "tenant": None}
        parents = self.some("waiting", "ready", "assigned") if self.random.random() < 0.3 else []
        if parents and "unique" not in job:
            job |= {"after": parents, "after_any_end": choose([True, False])}
        return self.session.enqueue({key: each for key, each in job.items() if each is not None})

    # Acts of nodes.

    def start_node(self) -> object:
        """Start a node that serves some queues and types."""
        some = self.random.sample(list(KINDS), self.random.choice([1, 2, 3, 3, 3]))
        keyless = self.random.choice([[], ["secret"]]) if "secret" not in some else []
        queues = self.random.choice([*[QUEUES] * 4, QUEUES[:1], QUEUES[1:]])
        workers, capacity = self.random.choice([1, 1, 2]), self.random.choice([1, 2, 4])
        node = self.node(queues, some, keyless=keyless, workers=workers, capacity=capacity)
        return node.name, queues, some, keyless, workers, capacity

    def node(
        self,
        queues: Sequence[str] = QUEUES,
        kinds: Sequence[str] = tuple(KINDS),
        *,
        keyless: Sequence[str] = (),
        workers: int = 1,
        capacity: int = 4,
    ) -> ModelledNode:
        """Start a node."""
        self._started += 1
        types = [
            {"work_type": name, "queue": "mail", "priority": 4, "weight": 1, "policy": KINDS[name]}
            for name in kinds
        ]
        node = ModelledNode(
            self.session,
            f"node-{self._started}",
            queues=queues,
            work_types=types,
            keyless=keyless,
            workers=workers,
            capacity=capacity,
        )
        self.nodes.append(node)
        return node

    def put(self, *jobs: Mapping[str, Any]) -> list[int]:
        """Enqueue jobs that run alike but for the given options."""
        return self.session.enqueue(
            *({"work_type": "plain", "queue": "mail", **job} for job in jobs)
        )

    def stop_node(self) -> object:
        """Stop a node: its jobs return to the queue."""
        return self._leaves("select txqueue.leave(%s, 'stopped')")

    def fall_silent(self) -> object:
        """End a node without a word: the next heartbeat of another one rescues its jobs."""
        return self._leaves(
            "with silent as (update txqueue.node_info set leased_at = 'epoch', heartbeat_at ="
            " case when incarnation = %s then now() - interval '2 hours' else heartbeat_at end"
            " returning 1) select count(*) from silent"
        )

    def _leaves(self, sql: str) -> object:
        for node in self.random.sample(self.nodes, min(1, len(self.nodes))):
            self.session.value(sql, node.incarnation)
            self.nodes.remove(node)
            return node.name
        return None

    def drain(self) -> object:
        """Drain a node, or let a drained one go on."""
        for node in self.random.sample(self.nodes, min(1, len(self.nodes))):
            act = "drain" if node.state == "alive" else "undrain"
            self.session.value(f"select txqueue.{act}_node(%s, 'ann')", node.name)
            node.state = "draining" if act == "drain" else "alive"
            return act, node.name
        return None

    def hurry(self) -> object:
        """Let jobs of a worker have ended quickly, so that its node claims ahead for a while."""
        for node in self.random.sample(self.nodes, min(1, len(self.nodes))):
            worker = self.random.choice(node.regular)
            worker.rate = self.random.choice([10.0, 20.0, 40.0])
            return node.name, worker.key, worker.rate
        return None

    def turn_worker(self) -> object:
        """Have a worker block, be stuck or crowded, start, or work again."""
        for node in self.random.sample(self.nodes, min(1, len(self.nodes))):
            worker = self.random.choice(node.each)
            states = ["blocked", "open"] if worker.is_apart else [*CLOSED, *["open"] * 5]
            state = self.random.choice(states)
            if state == worker.state:
                return None
            self.turn(self.session, node, worker, state)
            return node.name, worker.key, state
        return None

    def turn(self, session: Session, node: ModelledNode, worker: HeldWorker, state: str) -> None:
        """Turn a worker; one that can start no job returns those that do not block it."""
        worker.becomes(state)
        if state not in ("open", "crowded"):
            kept = [*worker.held][:1] if state == "blocked" else []
            worker.blocking = {
                job_id for _, number, _, ids in session.held() if number in kept for job_id in ids
            }
            for assignment in [*worker.held][len(kept) :]:
                session.value(
                    "select txqueue.release(%s, %s::bigint[], false)",
                    node.incarnation,
                    [assignment],
                )
                node.finished(assignment)

    def claim(self) -> object:
        """Have a node claim once."""
        for node in self.random.sample(self.nodes, min(1, len(self.nodes))):
            taken = claimed(self.session, node)
            return (node.name, taken) if taken else None
        return None

    def end(self) -> object:
        """End the jobs of an assignment in some way."""
        held = self.session.held()
        for lane, number, incarnation, ids in self.random.sample(held, min(1, len(held))):
            outcome = self.random.choice(["done", "retry", "failed", "died", "died", "started"])
            if outcome == "started":
                sql = "select txqueue.started(%s, %s::bigint[], %s::bigint[], %s::float8[])"
                numbers = [number] * len(ids)
                self.session.value(sql, incarnation, numbers, ids, [60.0] * len(ids))
                return outcome, ids
            if outcome == "done":
                complete(self.session, incarnation, [(lane, number, incarnation, ids)])
            elif outcome == "died":
                sql = "select txqueue.release(%s, %s::bigint[], true)"
                self.session.value(sql, incarnation, [number])
            else:
                self._settle(number, incarnation, ids, outcome)
            for node in self.nodes:
                if node.incarnation == incarnation:
                    node.finished(number)
            return outcome, ids
        return None

    def _settle(self, number: int, incarnation: int, ids: Sequence[int], outcome: str) -> None:
        common = {"assignment": number, "outcome": outcome, "delay": 3600.0, "error": "x"}
        outcomes = [{"job_id": job_id, **common} for job_id in ids]
        sql = "select settled from txqueue.settle(%s, %s)"
        self.session.value(sql, incarnation, json.dumps(outcomes))

    def suspect(self) -> object:
        """Have two processes die that ran a job."""
        for job_id in self.some("ready")[:1]:
            sql = "update txqueue.job_ready set deaths = 2 where job_id = %s"
            self.session.cursor.execute(sql, (job_id,))
            return job_id
        return None

    # Acts of operators.

    def subject(self) -> tuple[str, str]:
        """Choose a queue, a tenant or a group."""
        kinds = {"queue": QUEUES, "tenant": TENANTS, "group": GROUPS}
        kind = self.random.choice(list(kinds))
        return kind, self.random.choice(kinds[kind])

    def pause(self) -> object:
        """Pause something."""
        self.session.value("select txqueue.pause(%s, %s, 'ann')", *(subject := self.subject()))
        return subject

    def throttle(self) -> object:
        """Have something be held for long, as one of its jobs has raised Throttled."""
        kind, key = self.subject()
        said = [{"job_id": 1, "queue": "", kind: key, "delay": 1000}]
        self.session.value("select txqueue.settle_rates(%s)", json.dumps(said))
        if kind == "group":
            self.session.value("select txqueue.free_groups(array[%s])", key)
        return kind, key

    def resume(self) -> object:
        """Resume what is paused."""
        sql = (
            "select jsonb_build_array(kind, key) from txqueue.control"
            " where is_paused or held_until is not null"
        )
        for kind, key in self.session.column(sql)[:1]:
            self.session.value("select txqueue.resume(%s, %s, 'ann')", kind, key)
            return kind, key
        return None

    def limit(self) -> object:
        """Set one limit of something."""
        kind, key = self.subject()
        most = 1 if kind == "group" else self.random.choice([1, 2])
        limits = {"concurrency": most, "rate": 0.001}
        what = self.random.choice(["concurrency", "rate", *(["reserve"] * (kind == "queue"))])
        value = limits.get(what, 0.5)
        given = [
            value if what == each else None
            for each in ("concurrency", "rate", "burst", "share", "reserve")
        ]
        sql = "select txqueue.set_limit(%s, %s, %s::integer, %s, %s::integer, %s, %s, 'ann')"
        self.session.value(sql, kind, key, *given)
        return kind, key, what, value

    def lift(self) -> object:
        """Lift all limits of something."""
        sql = "select jsonb_build_array(kind, key) from txqueue.control"
        subjects = self.session.column(sql)
        for kind, key in self.random.sample(subjects, min(1, len(subjects))):
            self.session.value(
                "select txqueue.set_limit(%s, %s, null, null, null, null, null, 'ann',"
                " '{concurrency,rate,reserve}')",
                *(kind, key),
            )
            return kind, key
        return None

    def cancel(self) -> object:
        """Cancel some jobs that no node holds."""
        ids = self.some("waiting", "ready")
        return self.session.value("select cancelled from txqueue.cancel(%s, 'ann')", ids)

    def retry(self) -> object:
        """Retry some jobs, also ones that wait for their time."""
        ids = self.some("failed", "cancelled", "waiting")
        return self.session.value("select retried from txqueue.retry(%s, 'ann')", ids)

    def time_passes(self) -> int:
        """Let the moment come for which some jobs wait; no node looks at them yet."""
        self.session.cursor.execute(LATER)
        return self.session.cursor.rowcount

    # What is seen.

    def ids(self, *states: str) -> list[int]:
        """The numbers of the jobs that are in some states."""
        sql = "select job_id from txqueue.job where state in %s order by 1"
        return self.session.column(sql, states)

    def some(self, *states: str) -> list[int]:
        """Choose one or two of the jobs that are in some states."""
        ids = self.ids(*states)
        return self.random.sample(ids, min(len(ids), self.random.randint(1, 2)))

    def state(self) -> State:
        """Explain each job, and see what happens without any further act."""
        for place, node in enumerate(self.nodes):
            # One heartbeat rescues and frees for all; the others only report.
            if place == 0 or node.is_changed():
                beat(self.session, node)
        for node in [each for each in self.nodes if each.state == "alive"][:1]:
            claimed(self.session, node, Room(0, 0, 0, 0, 0))
        self.session.cursor.execute(_EXPLAINED, (self.session.live(),))
        facts = dict(self.session.cursor.fetchall())
        blockers = {job_id: judged(json.loads(text)) for job_id, text in facts.items()}
        taken, left = self._foreseen(
            {job_id for job_id, its in blockers.items() if its.reason == "next"},
            {job_id for job_id, its in blockers.items() if its.gravity is Gravity.COURSE},
        )
        jobs = [
            Explained(job_id, text, job_id in taken, job_id not in left)
            for job_id, text in facts.items()
        ]
        return State(self.acts, jobs)

    def _foreseen(self, soon: set[int], later: set[int]) -> tuple[set[int], set[int]]:
        """Which jobs the next claims take, and which never end.

        All that happens in a transaction that is rolled back.

        By chance a tenant has no turn in a claim, so that claims for the jobs that are said to be
        claimed soon, or to run later, are repeated.
        """
        kept, nodes = self.session.sequences(), copy.deepcopy(self.nodes)
        self.session.connection.autocommit = False
        try:
            taken = claimed_until_quiet(self.session, nodes, soon)
            left = let_all_end(self.session, nodes, later)
            return taken, left
        finally:
            self.session.connection.rollback()
            self.session.connection.autocommit = True
            self.session.restore(kept)
