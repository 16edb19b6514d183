"""Parents and children under all that may happen to them, against a model in plain Python.

The rule that both follow: a job that an operator opens again has not ended. Children that still
wait also wait for its new end; a child that has run, or was cancelled, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import Factory, define
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.db.conftest import EMPTY
from tests.db.masters import Master, master
from tests.db.test_parents import put

NOT_DONE = ("failed", "cancelled")
ENDED = ("done", *NOT_DONE)
LATER = 1000.0
FINGERPRINT = "select txqueue.fingerprint('x')"
STATES = """
    select job_id, coalesce(waiting_for, state::text)
      from txqueue.job
"""
RECENT = 5
number = st.integers(0, RECENT - 1)
picks = st.lists(number, min_size=1, max_size=3)


@define
class Modelled:
    """A job as the model has it: its state, or what it waits for, and the ends of its parents.

    One that was postponed, and has not run since, is due later.
    """

    state: str
    after: tuple[int, ...] = ()
    any_end: bool = False
    ends: dict[int, str | None] = Factory(dict)
    is_later: bool = False


class Family:
    """The model: what each act does to jobs and their children."""

    def __init__(self) -> None:
        self.jobs: dict[int, Modelled] = {}

    def judge(self, this: Modelled) -> None:
        """Give a job that waits for its parents the state that their ends allow."""
        ends = this.ends.values()
        if not this.any_end and any(end in NOT_DONE for end in ends):
            this.state = "cancelled"
        else:
            this.state = "parents" if None in ends else "time" if this.is_later else "ready"

    def begin(self, this: Modelled) -> None:
        """Let a job start over: it waits for those of its parents that have not ended."""
        states = {parent: self.jobs[parent].state for parent in this.after}
        this.ends = {parent: end if end in ENDED else None for parent, end in states.items()}
        self.judge(this)

    def end(self, job_id: int, state: str) -> None:
        """End a job, and unblock or cancel the children that wait for it."""
        self.jobs[job_id].state = state
        if state in ENDED:
            for child in self.waiting_for(job_id):
                self.jobs[child].ends[job_id] = state
                self.judge(self.jobs[child])
                if self.jobs[child].state == "cancelled":
                    self.end(child, "cancelled")

    def waiting_for(self, job_id: int) -> list[int]:
        """The children that still wait, for this job or for another parent."""
        return [
            child
            for child, this in self.jobs.items()
            if this.state == "parents" and job_id in this.ends
        ]

    def reopen(self, job_id: int, *, is_later: bool) -> None:
        """Open a job again that failed or was cancelled, unless a parent of it was not done."""
        this = self.jobs[job_id]
        former = this.state
        this.is_later = this.is_later or is_later
        self.begin(this)
        if this.state == "cancelled":
            this.state = former
            return
        for child in self.waiting_for(job_id):
            self.jobs[child].ends[job_id] = None

    def of(self, *states: str) -> list[int]:
        """The jobs in some states."""
        return [job_id for job_id, this in self.jobs.items() if this.state in states]


class Families(RuleBasedStateMachine):
    """The stored functions beside the model, on a database that is emptied."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.model = Family()
        self.open_child: tuple[int, Modelled] | None = None
        with master(self.dsn) as session:
            session.cursor.execute(EMPTY)
        self.node = Master(self.dsn)
        self.open = Master(self.dsn, "open")
        self.open.connection.autocommit = False

    def teardown(self) -> None:
        """End everything: nothing waits without limit, and no row of job_parent is left."""
        try:
            self.commit()
            while self.model.of("ready", "time"):
                self.retry_these(self.model.of("time"))
                self.end_one(0, "done")
            self.compare()
            assert self.model.of("parents") == []
            assert self.node.value("select count(*) from txqueue.job_parent") == 0
        finally:
            self.node.close()
            self.open.close()

    def pick(self, numbers: Iterable[int], *states: str) -> list[int]:
        """Choose some of the latest jobs that are in some states."""
        known = (self.model.of(*states) if states else list(self.model.jobs))[-RECENT:]
        return sorted({known[number % len(known)] for number in numbers}) if known else []

    def enqueue(self, session: Master, after: list[int], any_end: bool) -> tuple[int, Modelled]:
        """Enqueue a job that waits for others."""
        child = put(session, after, after_any_end=any_end)
        this = Modelled("", tuple(after), any_end)
        self.model.begin(this)
        return child, this

    @initialize()
    def put_some(self) -> None:
        """Jobs that wait for none, of which one has failed."""
        for job_id in self.node.enqueue({}, {}, {}):
            self.model.jobs[job_id] = Modelled("ready")
        self.end_one(0, "failed")

    @rule(numbers=picks, any_end=st.booleans())
    def put_child(self, numbers: list[int], any_end: bool) -> None:
        """A job that waits for others, of which some may have ended."""
        child, this = self.enqueue(self.node, self.pick(numbers), any_end)
        self.model.jobs[child] = this

    @precondition(lambda self: self.open_child is None)
    @rule(numbers=picks, any_end=st.booleans())
    def put_open_child(self, numbers: list[int], any_end: bool) -> None:
        """A job that waits for others, in a transaction that stays open."""
        self.open_child = self.enqueue(self.open, self.pick(numbers), any_end)

    @rule()
    def commit(self) -> None:
        """Commit the open child: it sees what happened to its parents meanwhile."""
        self.open.connection.commit()
        if self.open_child is not None:
            child, this = self.open_child
            self.open_child = None
            self.model.jobs[child] = this
            if this.state == "parents":
                self.model.begin(this)
            if this.state == "cancelled":
                self.model.end(child, "cancelled")

    @rule(number=number, outcome=st.sampled_from([*ENDED, "failed", "retry"]))
    def end_one(self, number: int, outcome: str) -> None:
        """Run a job; the other ready ones go back to the queue."""
        chosen = self.pick([number], "ready")
        for chunk in self.node.claim() if chosen else ():
            for job_id in chunk.ids:
                if [job_id] == chosen:
                    self.settle(chunk.assignment, job_id, outcome)
            self.node.release(chunk.assignment)
        for job_id in chosen:
            self.model.end(job_id, "time" if outcome == "retry" else outcome)

    def settle(self, assignment: int, job_id: int, outcome: str) -> None:
        """Write the outcome of a job, with the same error each time."""
        self.node.value(
            "select settled from txqueue.settle(%s, jsonb_build_array(jsonb_build_object("
            "'job_id', %s, 'assignment', %s, 'outcome', %s, 'error', 'x', 'delay', %s)))",
            *(self.node.incarnation, job_id, assignment, outcome, LATER),
        )

    @rule(numbers=picks)
    def retry(self, numbers: list[int]) -> None:
        """Retry some jobs, such as parents of which others still wait for a sibling."""
        self.retry_these(self.pick(numbers, *NOT_DONE, "time"))

    def retry_these(self, ids: list[int]) -> None:
        """Retry jobs: they are ready, or wait for parents that have not ended."""
        self.node.value("select retried from txqueue.retry(%s, 'ann')", ids)
        for job_id in set(ids) & set(self.model.of("time")):
            self.model.jobs[job_id].state = "ready"
            self.model.jobs[job_id].is_later = False
        for job_id in sorted(set(ids) & set(self.model.of(*NOT_DONE))):
            self.model.reopen(job_id, is_later=False)

    @precondition(lambda self: self.model.of("failed"))
    @rule()
    def postpone(self) -> None:
        """Postpone all failures: they wait for a time, or for parents that have not ended."""
        kind = self.node.value(FINGERPRINT)
        sql = "select postponed from txqueue.postpone_failures(%s, 'ann', %s)"
        self.node.value(sql, kind, LATER)
        for job_id in sorted(self.model.of("failed")):
            self.model.reopen(job_id, is_later=True)

    @rule(numbers=picks)
    def cancel(self, numbers: list[int]) -> None:
        """Cancel some jobs, in whatever state they are."""
        ids = self.pick(numbers)
        self.node.value("select cancelled from txqueue.cancel(%s, 'ann')", ids)
        unstarted = self.model.of("ready", "time", "parents")
        failed = self.model.of("failed")
        for job_id in set(ids) & set(unstarted):
            self.model.end(job_id, "cancelled")
        for job_id in set(ids) & set(failed):
            self.model.jobs[job_id].state = "cancelled"

    @rule(number=number)
    def repeat(self, number: int) -> None:
        """Repeat a job that has ended: the copy waits for none, and none waits for it."""
        for job_id in self.pick([number], *ENDED):
            copy = self.node.value("select txqueue.repeat(%s, 'ann')", job_id)
            self.model.jobs[copy] = Modelled("ready")

    @invariant()
    def compare(self) -> None:
        """Each job is in the state that the model gives it."""
        self.node.value("select txqueue.propagate_late_ends()")
        self.node.cursor.execute(STATES)
        seen = dict(self.node.cursor.fetchall())
        assert seen == {job_id: this.state for job_id, this in self.model.jobs.items()}


def test_children_follow_parents_that_are_opened_again(emptied_database18: str) -> None:
    """Whatever is retried, postponed, cancelled or repeated, in whatever order."""

    class OnDatabase(Families):
        dsn = emptied_database18

    run_state_machine_as_test(
        OnDatabase,
        settings=settings(
            max_examples=60,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
