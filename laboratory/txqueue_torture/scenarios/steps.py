"""Jobs with durable steps, whose processes are killed, stopped and restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field

from txqueue.errors import Refused
from txqueue_torture.demands import started_on
from txqueue_torture.environment import Testbed
from txqueue_torture.history import lines_of
from txqueue_torture.kept_steps import StepRecords, broken_steps
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.chaos import NAMES, Chaos
from txqueue_torture.stepped import AGAIN, FIXED, SIGNAL, STEP, STEPS, Called, Stepped

__all__ = ["steps_killed", "steps_taken_over"]

APP = ("txqueue_torture.stepped",)
JOBS, RATE = 100, 25.0
# Jobs that have their second signal before they start: they end a run just as the first one comes.
EARLY = 5
FAULTS = 5
# One of so many jobs fails for good, and is done again from a step on.
KINDS = (*["stepped"] * 9, "stepped_failing")
HELD, LEASE = 8, 2.0
WITHIN = 90.0
# Seconds after which jobs of which none goes on are stuck.
STUCK = 20.0

_TABLE = "create table if not exists {schema}.torture_step (job_id bigint, name text)"
_WRITTEN = "select job_id, name, count(*) from {schema}.torture_step group by job_id, name"
_CHILDREN = """select (payload ->> 'parent')::bigint, count(*) from {schema}.job
    where work_type = %s group by 1"""
_STATES = "select job_id, state::text from {schema}.job where work_type = %s"
_SEND = """select {schema}.signal(%s, %s, '"theirs"', 'theirs')"""
_LEFT = """select (select count(*) from {schema}.job_step
                     where job_id not in (select job_id from {schema}.job))
    + (select count(*) from {schema}.job_signal)"""


@define
class _Steps:
    """The jobs of a scenario, from the outside."""

    testbed: Testbed
    signalled: set[int] = field(factory=set)
    repeated: list[int] = field(factory=list)

    def rows(self, sql: str, parameters: Iterable[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        schema = self.testbed.schema
        return self.testbed.database.rows(sql.format(schema=schema), tuple(parameters))

    def states(self) -> dict[int, str]:
        """Return the state of each job with steps."""
        return dict(self.rows(_STATES, (Stepped.work_type,)))

    def send_signals(self) -> None:
        """Send each job its second signal, twice under one key."""
        for job_id in self.states().keys() - self.signalled:
            self.signalled.add(job_id)
            try:
                for _ in range(2):
                    self.rows(_SEND, (job_id, SIGNAL))
            except Refused as error:
                self.testbed.expect(condition=False, text=f"a job waits for its signal: {error}")

    def finish(self, *states: str) -> None:
        """Send signals until all jobs are in some states."""
        while not (now := self.progress())[1] <= set(states):
            text = f"a job goes on that is not {' or '.join(states)}"
            self.testbed.wait(lambda now=now: self.progress() != now, text, STUCK)

    def progress(self) -> tuple[int, frozenset[str]]:
        """Send signals; return how many steps have returned so far, and the states of the jobs."""
        self.send_signals()
        return sum(1 for _ in self.returned()), frozenset(self.states().values())

    def returned(self) -> Iterator[dict[str, Any]]:
        """Yield the records of what steps have returned."""
        return (line for line in lines_of(self.testbed.folder) if line["what"] == STEP)

    def repeat_failed(self) -> None:
        """Retry the failed jobs from a step on, and let them succeed."""
        (self.testbed.folder / FIXED).touch()
        self.repeated = [job_id for job_id, state in self.states().items() if state == "failed"]
        for job_id in self.repeated:
            self.rows("select {schema}.retry_from(%s, %s, 'torture')", (job_id, AGAIN))

    def check(self, names: Iterable[str], job_ids: Iterable[int]) -> None:
        """Expect that each step was done once and kept, and that nothing is left of any."""
        records = StepRecords.of(
            self.returned(),
            self.rows(_WRITTEN),
            self.rows(_CHILDREN, (Called.work_type,)),
            {(job_id, name) for job_id in self.repeated for name in STEPS[STEPS.index(AGAIN) :]},
        )
        for text in broken_steps(records, names, job_ids)[:20]:
            self.testbed.expect(condition=False, text=text)
        ((left,),) = self.rows(_LEFT)
        self.testbed.expect(left == 0, f"{left} steps are left of no job, or signals of ended ones")


@scenario("steps_killed", "processes are killed and stopped while jobs do steps and wait")
def steps_killed(testbed: Testbed) -> None:
    """Inject faults in random order: each step is done once, each signal is consumed once."""
    steps, chaos = _Steps(testbed), Chaos(testbed, APP)
    steps.rows(_TABLE)
    testbed.start_client(rate=RATE, kinds=KINDS[:1], count=EARLY, app=APP).wait()
    steps.send_signals()
    for name in NAMES:
        chaos.start(name)
    for node in chaos.nodes.values():
        node.wait_up()
    count = int(JOBS * testbed.scale)
    client = testbed.start_client(rate=RATE, kinds=KINDS, count=count, app=APP)
    for _ in range(int(FAULTS * testbed.scale)):
        steps.send_signals()
        chaos.step()
    client.wait(60.0 * testbed.scale)
    steps.finish("done", "failed")
    steps.repeat_failed()
    steps.finish("done")
    testbed.drain()
    for act, times in {**chaos.done, "repeated": len(steps.repeated)}.items():
        testbed.figure(act, times)
    testbed.expect(steps.repeated, "some jobs fail, and are repeated")
    steps.check([name for name in STEPS if name != "rest"], steps.states())


@scenario("steps_taken_over", "a stopped node ends steps after another did them, too")
def steps_taken_over(testbed: Testbed) -> None:
    """Resume a stopped node after others did its jobs: its late steps are refused."""
    steps = _Steps(testbed)
    steps.rows(_TABLE)
    testbed.lease = LEASE
    holder = testbed.start_node("first", app=APP).wait_up()
    testbed.start_client(rate=40, kinds=("stepped_once",), count=HELD, app=APP)
    testbed.wait(lambda: len(started_on(testbed, "first")) == HELD, "all jobs run")
    with testbed.fault("stop node", nodes=[holder], frozen=True, still=True) as fault:
        testbed.start_node("second", app=APP).wait_up()
        testbed.wait(lambda: not testbed.database.live_jobs(), "all is done elsewhere", WITHIN)
        taken = started_on(testbed, "second")
        fault.evidence = f"second did {len(taken)} jobs of first, which stood still"
    holder.stop()
    testbed.drain()
    testbed.expect(len(taken) == HELD, f"all jobs are taken over, not {len(taken)}")
    steps.check(("left", "book"), taken)
