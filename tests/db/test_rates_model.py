"""Random claims, ends, costs, kills and Throttled against a model of rates, by the server's clock.

The model knows each moment within bounds: those before and after the statement that has set it.
What it forbids by the most lenient of them must not happen; what it allows by the strictest must.
"""

from __future__ import annotations

from random import Random
from typing import TypeAlias

import pytest
from attrs import define, field

from tests.db.masters import Master
from tests.db.stored import Taken

RATES = {"test.slow": (1.0, 1), "test.quick": (4.0, 3)}
TYPES = (*RATES, "test.free")
GROUPS = ("g", "h")
Span: TypeAlias = tuple[float, float]


@define
class Bucket:
    """What is spent of a rate, by the most lenient clock and by the strictest."""

    rate: float
    burst: int
    spent: Span = (0.0, 0.0)
    counted: Span = (0.0, 0.0)

    def tokens(self, now: Span) -> Span:
        """Return the least that may be left and the most."""
        paid = self.rate * (now[1] - self.counted[0]), self.rate * (now[0] - self.counted[1])
        least, most = (max(0.0, spent - part) for spent, part in zip(self.spent, paid, strict=True))
        return self.burst - most, self.burst - least

    def charge(self, cost: float, now: Span) -> None:
        """Add a cost."""
        least, most = self.tokens(now)
        self.spent = max(0.0, self.burst - most + cost), max(0.0, self.burst - least + cost)
        self.counted = now


@define
class World:
    """Nodes, their jobs, and the model of their rates."""

    nodes: list[Master]
    random: Random
    passed: float = 0.0
    jobs: dict[int, tuple[str, str, int]] = field(factory=dict)
    running: list[tuple[Master, Taken]] = field(factory=list)
    held_until: dict[str, Span] = field(factory=dict)
    buckets: dict[tuple[str, str], Bucket] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.buckets = {
            (kind, group): Bucket(*rate) for kind, rate in RATES.items() for group in GROUPS
        }
        for kind in TYPES:
            policy: dict[str, object] = {"group_limit": 4}
            if kind in RATES:
                policy["group_rate"] = dict(zip(("rate", "burst"), RATES[kind], strict=True))
            self.nodes[0].publish(kind, policy=policy)

    def now(self) -> float:
        """Return the moment of the model."""
        clock = "select extract(epoch from clock_timestamp())::float8"
        return float(self.nodes[0].value(clock)) + self.passed

    def pass_time(self, seconds: float) -> None:
        """Move all moments that are noted into the past."""
        self.passed += seconds
        for table, columns, those in (
            ("spent_rate", ("counted_at", "paid_at"), "true"),
            ("control", ("held_until",), "held_until is not null"),
            ("job_waiting", ("not_before",), "waiting_for in ('time', 'rate')"),
        ):
            moved = ", ".join(f"{each} = {each} - make_interval(secs => %s)" for each in columns)
            sql = f"update txqueue.{table} set {moved} where {those}"
            self.nodes[0].cursor.execute(sql, [seconds] * len(columns))

    def enqueue(self) -> None:
        """Enqueue a job."""
        kind, group = self.random.choice(TYPES), self.random.choice(GROUPS)
        weight = self.random.choice((1, 1, 2, 5))
        (job_id,) = self.nodes[0].enqueue({"work_type": kind, "group": group, "weight": weight})
        self.jobs[job_id] = kind, group, weight

    def claim(self) -> int:
        """Claim, and check that each job may start; return how many do."""
        node, before = self.random.choice(self.nodes), self.now()
        chunks = node.take(self.random.randint(5, 50), work_types=TYPES).chunks
        now = before, self.now()
        for job_id in sorted(job_id for chunk in chunks for job_id in chunk.ids):
            kind, group, weight = self.jobs[job_id]
            assert self.held_until.get(group, now)[0] <= now[1], f"job {job_id} of a held group"
            if (bucket := self.buckets.get((kind, group))) is not None:
                assert bucket.tokens(now)[1] >= 1 - 1e-6, f"job {job_id} without a token"
                bucket.charge(weight, now)
        self.running += [(node, chunk) for chunk in chunks]
        return sum(len(chunk.ids) for chunk in chunks)

    def end(self) -> None:
        """End the jobs of a chunk in some way."""
        if not self.running:
            return
        node, chunk = self.running.pop(self.random.randrange(len(self.running)))
        cost = self.random.choice((None, 0, 1, 7))
        outcome = self.random.choice(("done", "done", "retry", "throttled"))
        delay = None if outcome == "done" else self.random.random() * 2
        before = self.now()
        is_throttled = outcome == "throttled"
        more = {"cost": cost, "delay": delay, "throttled": is_throttled or None}
        node.settle(chunk, "snooze" if is_throttled else outcome, **more)
        self._settled(chunk, cost, delay if is_throttled else None, (before, self.now()))

    def _settled(self, chunk: Taken, cost: float | None, hold: float | None, now: Span) -> None:
        for job_id in chunk.ids:
            kind, group, weight = self.jobs[job_id]
            if cost is not None and (kind, group) in self.buckets:
                self.buckets[kind, group].charge(cost - weight, now)
            if hold is not None:
                until, until_most = self.held_until.get(group, now)
                self.held_until[group] = (
                    max(until, now[0] + hold),
                    max(until_most, now[1] + hold),
                )

    def kill(self) -> None:
        """Have a node die and start again, and its jobs return."""
        node = self.random.choice(self.nodes)
        node.node_id, node.incarnation = node.register(("node", "other")[self.nodes.index(node)])
        self.running = [each for each in self.running if each[0] is not node]

    def finish(self) -> None:
        """End all jobs; whenever something may start by the model, something does."""
        for _ in range(10 * len(self.jobs)):
            for node, chunk in self.running:
                node.complete(chunk)
            self.running.clear()
            if not self.nodes[0].value("select count(*) from txqueue.job where state <> 'done'"):
                return
            if not self._began():
                self.pass_time(self.longest_wait())
                assert self._began(), "no job starts that might"
        raise AssertionError(f"jobs starve: {self.nodes[0].states()}")

    def _began(self) -> int:
        # What waits behind a job that becomes due may take two more claims.
        return sum(self.claim() for _ in range(4))

    def longest_wait(self) -> float:
        """Return the seconds after which each group has a token, and none is held."""
        now = (self.now(),) * 2
        waits = [(1 - each.tokens(now)[0]) / each.rate for each in self.buckets.values()]
        return max(0.0, *waits, *(until - now[0] for _, until in self.held_until.values())) + 2.0


@pytest.mark.parametrize("seed", range(6))
def test_no_job_starts_before_its_token_and_none_starves(
    node: Master, other: Master, seed: int
) -> None:
    """Whatever jobs cost, however often nodes die, and whichever jobs are throttled."""
    world = World([node, other], Random(seed))
    acts = (world.enqueue, world.enqueue, world.claim, world.claim, world.end, world.end)
    for turn in range(120):
        if turn in (40, 80):
            world.kill()
        world.random.choice(acts)()
        world.pass_time(world.random.choice((0.0, 0.0, 0.1, 1.0)))
    world.finish()
