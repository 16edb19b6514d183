"""Heavy jobs go to the least loaded node that serves them, whatever the road."""

from collections import Counter

import pytest
from twisted.internet.task import Clock

from tests.db.masters import Master
from txqueue.policy.placement.claim_plan import PATIENCE, HeavyJobs

HEAVY, CAPACITY, LOAD = 30, 100, 65
BEAT = "select txqueue.heartbeat(%s, %s, '{\"workers\": 1}')"
CLAIM = """
    select assignment, lane, jobs, left_job from txqueue.next_job(
        %s, %s, %s::text[], array['test.kind'], %s, %s, 100, 1000, 1, its_load => %s)"""
ASSIGNED = """
    select assignment from txqueue.enqueue_assigned(
        %s, %s, 'test.kind', '{}', weight => %s)"""


class Node:
    """A node that claims by its load, as its claimer does, and runs one job at a time."""

    def __init__(self, session: Master, clock: Clock, held: int, queues: list[str]) -> None:
        self.session, self.held, self.queues = session, held, queues
        self.clock = clock
        self.heavy_jobs = HeavyJobs()
        session.cursor.execute(
            "update txqueue.node_info set capacity = %s, queues = %s, report = '{\"workers\": 1}'"
            " where incarnation = %s",
            (CAPACITY, queues, session.incarnation),
        )
        self.beat()

    def beat(self) -> None:
        """Tell the load."""
        self.session.value(BEAT, self.session.incarnation, self.held / CAPACITY)

    def claim(self) -> int:
        """Claim, and run what was taken; returns how many jobs."""
        free = CAPACITY - self.held
        load = self.heavy_jobs.compared_load(self.held / CAPACITY, self.clock.seconds())
        self.session.cursor.execute(
            CLAIM,
            (self.session.node_id, self.session.incarnation, self.queues, free, free, load),
        )
        *taken, last = self.session.cursor.fetchall()
        self.heavy_jobs.note(last[3], self.clock.seconds())
        return sum(jobs for _, _, jobs, _ in taken)


@pytest.fixture
def clock() -> Clock:
    """Time that passes as the test says."""
    return Clock()


@pytest.fixture
def loaded(node: Master, clock: Clock) -> Node:
    """A node at 65 %, which serves one more queue than the other one."""
    return Node(node, clock, LOAD, ["default", "more"])


@pytest.fixture
def idle(other: Master, clock: Clock) -> Node:
    """A node without jobs."""
    return Node(other, clock, 0, ["default"])


@pytest.mark.parametrize("weight", [10, 20, 25, 30])
def test_heavy_jobs_are_claimed_by_the_idle_node(
    loaded: Node, idle: Node, clock: Clock, weight: int
) -> None:
    """Though the loaded one claims first, has room for them, and serves one more queue."""
    ran = Counter[str]()
    for _ in range(HEAVY):
        loaded.session.enqueue({"weight": weight})
        ran["loaded"] += loaded.claim()
        clock.advance(PATIENCE / 2)
        ran["idle"] += idle.claim()
    assert ran == {"loaded": 0, "idle": HEAVY}


@pytest.mark.parametrize("weight", [10, 20, 25, 30])
def test_heavy_jobs_are_not_assigned_to_the_loaded_node(
    loaded: Node, idle: Node, weight: int
) -> None:
    """A process that has joined that node enqueues them for a claim."""
    its = (loaded.session.node_id, loaded.session.incarnation, weight)
    assert loaded.session.value(ASSIGNED, *its) is None
    assert (loaded.claim(), idle.claim()) == (0, 1)
    assert loaded.session.value(ASSIGNED, *its[:2], 9) is not None


@pytest.mark.parametrize(
    "change",
    [
        "load = 0.6",
        "state = 'draining'",
        "work_types = '{}'",
        "queues = '{more}'",
        "capacity = 29",
        "heartbeat_at = now() - lease",
        'report = \'{"workers": 2, "unable": 2}\'',
    ],
)
def test_nothing_is_left_to_a_node_that_is_no_better(loaded: Node, idle: Node, change: str) -> None:
    """Nor to one that could not run the job."""
    loaded.session.cursor.execute(
        f"update txqueue.node_info set {change} where incarnation = %s", (idle.session.incarnation,)
    )
    loaded.session.enqueue({"weight": 30})
    assert loaded.claim() == 1


def test_lighter_jobs_go_ahead_of_one_that_is_left(loaded: Node, idle: Node) -> None:
    """Of the same queue and of others; the other node takes it, or this one after a while."""
    _, *light = loaded.session.enqueue({"weight": 30}, {"weight": 9}, {"queue": "more"})
    assert loaded.claim() == len(light)
    assert idle.claim() == 1


def test_a_job_that_no_node_takes_is_not_left_for_ever(
    loaded: Node, idle: Node, clock: Clock
) -> None:
    """The other node may hang: its last heartbeat was good."""
    assert idle.held == 0
    loaded.session.enqueue({"weight": 30})
    assert loaded.claim() == 0
    clock.advance(PATIENCE)
    assert loaded.claim() == 0
    assert loaded.claim() == 1
