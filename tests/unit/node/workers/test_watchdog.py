"""Worker processes that do not answer: they keep what they have begun, and nothing else."""

from collections.abc import Iterable, Sequence

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from tests.unit.node.doubles import Records, fake, is_rung, lease_of
from txqueue.model.assignment import JobKey
from txqueue.node.state.periodic import Alarm
from txqueue.node.workers.watchdog import EVERY, IDLE_CHECKS, REPLACE_AFTER, SILENT, Watchdog

KILL_AFTER = 60.0


class Hand:
    """A worker process that may be silent."""

    def __init__(self, harness: "Harness") -> None:
        self.pid = 4711
        self._desk = harness
        self.held = {5: 3}
        self.in_flight: set[int] = {1}
        self.blocker = 1
        self.begun: set[int] | None = {1}
        self.pinged_at: float | None = None
        self.answers = self.is_stopped = self.is_killed = False
        self.stuck_since: float | None = None
        self.crowded_since: float | None = None
        self.outlived = [8, 9]
        self.left = 0
        self.relieved = 0
        self.disowned: list[tuple[int, int]] = []

    @property
    def silent(self) -> float:
        """Seconds since the ping that it has not answered."""
        return 0.0 if self.pinged_at is None else self._desk.clock.seconds() - self.pinged_at

    @property
    def stuck(self) -> float:
        """Seconds since threads keep it from starting jobs."""
        since = self.stuck_since
        return 0.0 if since is None else self._desk.clock.seconds() - since

    @property
    def is_crowded(self) -> bool:
        """Whether threads keep half of it."""
        return self.crowded_since is not None

    @property
    def crowded(self) -> float:
        """Seconds since it has started no job because of that."""
        since = self.crowded_since
        return 0.0 if since is None else self._desk.clock.seconds() - since

    def measure(self) -> None:
        """It has no limit."""

    def relieve(self) -> None:
        """Note that its unstarted jobs are taken."""
        self.relieved += 1

    def ping(self) -> None:
        """Answer, or not."""
        if not self.answers and self.pinged_at is None:
            self.pinged_at = self._desk.clock.seconds()

    def stop(self) -> None:
        """Begin nothing more."""
        self.is_stopped = True

    def disown(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Note what is given back."""
        self.disowned += jobs

    def kill(self) -> None:
        """End."""
        self.is_killed = True


class Harness:
    """A watchdog, one worker, and a database that has three jobs assigned to it."""

    def __init__(self, kill_after: float | None = KILL_AFTER) -> None:
        self.clock = Clock()
        self.hand = Hand(self)
        self.records = Records()
        self.lease = lease_of()
        self.ready = [self.hand]
        self.closed: dict[str, int] = {}
        self.left: dict[str, object] = {}
        self.heartbeats = Alarm(self.clock)
        self.watchdog = Watchdog(
            self.clock,
            self,  # type: ignore[arg-type]
            lease=self.lease,
            workers=fake(self),
            records=fake(self.records),
            heartbeats=self.heartbeats,
            kill_after=kill_after,
        )

    async def jobs_of(self, incarnation: int, held: Sequence[int]) -> list[JobKey]:
        """Answer as the stored functions do."""
        assert (incarnation, held) == (7, [5])
        return [JobKey(5, job_id) for job_id in (1, 2, 3)]

    def wait(self, seconds: float) -> None:
        """Let it look for so long."""
        self.watchdog.startService()
        self.clock.pump([EVERY / 2] * round(2 * seconds / EVERY))
        self.watchdog.stopService()
        assert not self.clock.getDelayedCalls()


@pytest.fixture
def harness() -> Harness:
    """Everything it works with."""
    return Harness()


def test_one_that_answers_is_let_be(harness: Harness) -> None:
    """However long its jobs take."""
    harness.hand.answers = True
    harness.wait(2 * KILL_AFTER)
    assert not harness.hand.is_stopped
    assert not harness.hand.is_killed
    assert harness.hand.disowned == []


def test_one_that_holds_nothing_is_asked_less_often(harness: Harness) -> None:
    """If it is silent, it gets no job, and nothing is read of the database."""
    harness.hand.held = {}
    harness.hand.in_flight = set()
    harness.watchdog.startService()
    harness.hand.answers = True
    harness.clock.pump([EVERY / 2] * 3)
    harness.hand.answers = False
    harness.clock.pump([EVERY] * (IDLE_CHECKS + 3))
    assert harness.hand.is_stopped
    harness.clock.pump([EVERY] * 10)
    assert harness.hand.disowned == []
    harness.watchdog.stopService()


def test_a_heartbeat_says_at_once_that_workers_can_start_no_jobs(harness: Harness) -> None:
    """And that they can again; otherwise status and explain would be late by a heartbeat."""
    harness.hand.answers = True
    harness.wait(EVERY)
    assert not is_rung(harness.heartbeats)
    for closed in ({"blocked": 1}, {}):
        harness.closed = closed
        harness.wait(EVERY)
        assert is_rung(harness.heartbeats)
        harness.wait(EVERY)
        assert not is_rung(harness.heartbeats)


def test_one_that_is_silent_begins_nothing_more_first(harness: Harness) -> None:
    """Its jobs are returned only once it certainly starts no others."""
    harness.wait(SILENT + EVERY)
    assert harness.hand.is_stopped
    assert harness.hand.disowned == []


def test_what_a_silent_one_has_not_begun_runs_elsewhere(harness: Harness) -> None:
    """What it has begun stays with it."""
    harness.wait(2 * SILENT + EVERY)
    assert set(harness.hand.disowned) == {(5, 2), (5, 3)}


def test_the_start_of_a_job_that_blocks_its_worker_at_once_is_reported(harness: Harness) -> None:
    """By its master, once each time, as the worker cannot: tools find the job by its run time."""
    harness.wait(SILENT + EVERY)
    assert harness.records.started == []
    harness.wait(3 * SILENT)
    [job] = harness.records.started
    assert (job.assignment, job.job_id, job.progress) == (5, 1, None)
    assert 2 * SILENT <= job.seconds <= 2 * SILENT + 2 * EVERY


def test_a_master_that_is_late_itself_blames_no_worker(harness: Harness) -> None:
    """The answer may wait to be read; a worker that stays silent is stopped once it is punctual."""
    harness.watchdog.startService()
    harness.clock.pump([SILENT] * 5)
    assert harness.hand.silent >= 2 * SILENT
    assert not harness.hand.is_stopped
    harness.clock.pump([EVERY / 2] * 2)
    assert harness.hand.is_stopped
    harness.watchdog.stopService()


def test_a_master_that_slept_kills_no_worker_for_that(harness: Harness) -> None:
    """The workers may have answered meanwhile; one that does not is killed when its time is up."""
    harness.watchdog.startService()
    harness.clock.pump([EVERY, 2 * KILL_AFTER])
    assert harness.hand.silent >= KILL_AFTER
    assert not harness.hand.is_killed
    harness.clock.pump([EVERY])
    assert harness.hand.is_killed
    harness.watchdog.stopService()


@pytest.mark.parametrize("lacks", ["lease", "knowledge", "written"])
def test_nothing_is_taken_on_a_guess(harness: Harness, lacks: str) -> None:
    """Without a lease, without knowing what it has begun, or while ends are not written."""
    if lacks == "lease":
        harness.lease.forget()
    elif lacks == "knowledge":
        harness.hand.begun = None
    else:
        harness.records.noted = 1
    harness.wait(4 * SILENT)
    assert harness.hand.is_stopped
    assert harness.hand.disowned == []


def test_one_that_is_silent_for_too_long_is_ended_where_that_is_wanted(harness: Harness) -> None:
    """And not before."""
    harness.wait(KILL_AFTER - EVERY)
    assert not harness.hand.is_killed
    harness.wait(3 * EVERY)
    assert harness.hand.is_killed


def test_one_whose_threads_leave_no_room_loses_its_unstarted_jobs(harness: Harness) -> None:
    """Once each time; the log names the jobs whose threads go on."""
    harness.hand.answers, harness.hand.stuck_since, harness.hand.left = True, 0.0, 4
    with capturedLogs() as notes:
        harness.wait(KILL_AFTER / 2)
        assert harness.hand.relieved == 1
        harness.hand.stuck_since, harness.hand.left = None, 0
        harness.wait(3 * EVERY)
        harness.hand.stuck_since, harness.hand.left = harness.clock.seconds(), 4
        harness.wait(3 * EVERY)
    assert harness.hand.relieved == 2
    assert not harness.hand.is_killed
    assert [note["outlived"] for note in notes] == ["jobs 8, 9"] * 2


def test_one_that_stays_stuck_is_ended_where_that_is_wanted(harness: Harness) -> None:
    """It answers, but starts nothing."""
    harness.hand.answers, harness.hand.stuck_since = True, 0.0
    harness.wait(KILL_AFTER - 1)
    assert not harness.hand.is_killed
    harness.wait(2)
    assert harness.hand.is_killed


def test_a_silent_one_that_runs_no_job_is_replaced() -> None:
    """Nothing is lost with it: a handler may have closed the descriptors of its reactor."""
    harness = Harness(kill_after=None)
    harness.hand.in_flight, harness.hand.outlived = set(), []
    with capturedLogs() as notes:
        harness.wait(REPLACE_AFTER - EVERY)
        assert set(harness.hand.disowned) == {(5, 2), (5, 3)}
        assert not harness.hand.is_killed
        harness.wait(3 * EVERY)
    assert harness.hand.is_killed
    said = formatEvent(notes[-1])
    assert "worker process 4711 has not answered for 32 s although it runs no job" in said
    assert "a handler has closed its descriptors" in said


@pytest.mark.parametrize("has", ["job", "thread"])
def test_a_silent_one_with_work_is_not_replaced(has: str) -> None:
    """A job that it runs, or the thread of one that has timed out, may be doing useful work."""
    harness = Harness(kill_after=None)
    if has == "job":
        harness.hand.outlived = []
    else:
        harness.hand.in_flight = set()
    harness.wait(3 * REPLACE_AFTER)
    assert harness.hand.is_stopped
    assert not harness.hand.is_killed


def test_a_master_that_slept_replaces_no_worker_for_that() -> None:
    """The worker may have answered meanwhile."""
    harness = Harness(kill_after=None)
    harness.hand.in_flight, harness.hand.outlived = set(), []
    harness.wait(SILENT + EVERY)
    harness.watchdog.startService()
    harness.clock.pump([EVERY, 2 * REPLACE_AFTER])
    assert harness.hand.silent >= REPLACE_AFTER
    assert not harness.hand.is_killed
    harness.clock.pump([EVERY])
    assert harness.hand.is_killed
    harness.watchdog.stopService()


def test_one_that_threads_have_half_filled(harness: Harness) -> None:
    """Its unstarted jobs run elsewhere, again when threads take more; the log says why, once."""
    harness.hand.answers, harness.hand.crowded_since, harness.hand.left = True, 0.0, 2
    with capturedLogs() as logs:
        harness.wait(3 * EVERY)
        assert harness.hand.relieved == 1
        harness.hand.left = 3
        harness.wait(3 * EVERY)
    assert harness.hand.relieved == 2
    (line,) = [formatEvent(each) for each in logs]
    assert line.startswith("worker process 4711 can start few jobs: functions in threads go on")
    assert not harness.hand.is_killed


def test_one_whose_jobs_do_not_fit_beside_threads(harness: Harness) -> None:
    """A job that is too heavy now does not keep those behind it: all return to the queue."""
    harness.hand.answers, harness.hand.left = True, 1
    harness.wait(3 * EVERY)
    assert harness.hand.relieved == 0
    harness.hand.in_flight = set()
    harness.wait(EVERY)
    assert harness.hand.relieved > 0


def test_one_that_starts_nothing_beside_threads_is_ended(harness: Harness) -> None:
    """Where that is wanted; it is said what ran."""
    harness.hand.answers, harness.hand.left = True, 2
    harness.wait(KILL_AFTER)
    harness.hand.crowded_since = harness.clock.seconds()
    harness.wait(KILL_AFTER - EVERY)
    assert not harness.hand.is_killed
    with capturedLogs() as logs:
        harness.wait(2 * EVERY)
    assert harness.hand.is_killed
    assert "went on after the ends of jobs 8, 9; it runs jobs 1" in formatEvent(logs[-1])


def test_a_heartbeat_says_at_once_what_threads_keep(harness: Harness) -> None:
    """Otherwise explain would tell of room that is none."""
    harness.hand.answers = True
    harness.wait(EVERY)
    harness.left = {"weight": 1}
    harness.wait(EVERY)
    assert is_rung(harness.heartbeats)


@pytest.mark.parametrize(
    ("blocker", "said"),
    [(1, "the handler of job 1 blocks it"), (0, "or it is stopped or gets no core")],
)
def test_only_a_handler_that_is_known_to_block_is_blamed(
    harness: Harness, blocker: int, said: str
) -> None:
    """One that only waits is not: its process may be stopped."""
    harness.hand.blocker = blocker
    with capturedLogs() as notes:
        harness.wait(SILENT + 2 * EVERY)
    assert said in (formatEvent(notes[0]) or "")
