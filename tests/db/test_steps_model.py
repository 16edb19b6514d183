"""Jobs with steps under all that may happen to them: nothing is done twice, and no job is stuck.

Each job has a script of steps. A run does what earlier runs have not done, as a worker does, and
may die before a statement, or after the commit and before its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import Factory, define
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.db.conftest import EMPTY
from tests.db.masters import Master, master
from tests.db.stored import Taken

KINDS = ("step", "txn", "wait", "limited", "sleep", "call")
MOST_RUNS = 200
MOST_JOBS = 3
DUE = """
    update txqueue.job_step set until = until - interval '2 hours' where ended_at is null;
    update txqueue.job_waiting set not_before = not_before - interval '2 hours'
     where waiting_for = 'time';
"""
FORGOTTEN = """
    select job_id from txqueue.job_waiting
     where waiting_for = 'signal'
       and job_id in (select job_id from txqueue.job_signal where taken_at is null)
       and job_id not in (select job_id from txqueue.late_end)
"""
SIGNALS_OF_DONE = """
    select job_id from txqueue.job_signal
     where job_id not in (select job_id from txqueue.job where state in ('failed', 'cancelled'))
"""
GIVEN_BACK = ("stopped", "killed", "unread", "no key")
scripts = st.lists(st.sampled_from(KINDS), max_size=4).map(lambda script: ["txn", *script])


class Killed(Exception):
    """The process of the run has died."""


class Ended(Exception):
    """The run waits."""


@define
class Modelled:
    """A job: its script, which of its steps were forgotten, and how many signals it was sent.

    It holds its group from a wait until its next run ends by itself, or an operator ends it. A new
    release of its code renames waits of which no run has taken a signal.
    """

    script: list[str]
    forgotten: set[str] = Factory(set)
    sent: int = 0
    keys: dict[str, int] = Factory(dict)
    renamed: dict[int, int] = Factory(dict)
    taken: set[str] = Factory(set)
    group: str | None = None
    holds: bool = False

    @property
    def names(self) -> list[str]:
        """The names of its steps."""
        return [
            f"{kind} {place}{chr(39) * self.renamed.get(place, 0)}"
            for place, kind in enumerate(self.script)
        ]

    def release(self) -> None:
        """Rename the waits that have taken no signal yet."""
        for place, (kind, name) in enumerate(zip(self.script, self.names, strict=True)):
            if kind in ("wait", "limited") and name not in self.taken:
                self.renamed[place] = self.renamed.get(place, 0) + 1


class Run:
    """One run of a job, as a worker does it.

    Args:
        node: The session of the node.
        chunk: The job, claimed alone.
        job: Its steps.
        life: How many statements it survives; its process dies at the next one.
        is_late: Whether that one is committed all the same.
        fails: Whether it ends by an error and is tried again.
        meddle: What happens between the look for a signal and the end of the run.
    """

    def __init__(
        self,
        node: Master,
        chunk: Taken,
        job: Modelled,
        life: int,
        *,
        is_late: bool,
        fails: bool = False,
        meddle: Callable[[], object] = lambda: None,
    ) -> None:
        self.node = node
        self.chunk = chunk
        self.job = job
        self.life = life
        self.is_late = is_late
        self.last = "retry" if fails else "done"
        self.outcome: str | None = None
        self.meddle = meddle
        self.job_id = chunk.ids[0]
        self.key = (chunk.assignment, self.job_id)

    def go(self) -> None:
        """Do the script from its top."""
        terms = self.chunk.jobs[0].terms or {}
        memos = self._loaded() if terms.get("steps") else {}
        for kind, name in zip(self.job.script, self.job.names, strict=True):
            memo = memos.get(name)
            if memo is not None and memo[1]:
                self.job.taken.add(name)
            else:
                getattr(self, f"_{kind}")(name, memo)
        self._sent(lambda: self._settle(self.last, error="x"))

    def _loaded(self) -> dict[str, tuple[str | None, bool, float | None, Any, Any]]:
        self.node.cursor.execute(
            "select name, result, is_ended, seconds, child, child_state"
            " from txqueue.load_steps(%s)",
            (self.job_id,),
        )
        return {name: tuple(rest) for name, *rest in self.node.cursor.fetchall()}

    def _sent(self, statement: Any) -> Any:
        """Send a statement; the process may die before it, or before its answer."""
        self.life -= 1
        if self.life < 0 and not self.is_late:
            raise Killed
        answer = statement()
        if self.life < 0:
            raise Killed
        return answer

    def _settle(self, outcome: str, **more: Any) -> None:
        assert self.node.settle(self.chunk, outcome, **more) == [self.job_id]
        self.outcome = outcome

    def write(self, **step: Any) -> dict[int, str | None]:
        """Write one step, or take a signal."""
        about = {"job_id": self.job_id, "assignment": self.chunk.assignment, **step}
        self.node.cursor.execute(
            "select place, value from txqueue.write_steps(%s, %s)",
            (self.node.incarnation, json.dumps([about])),
        )
        return dict(self.node.cursor.fetchall())

    def _step(self, name: str, memo: Any) -> None:
        assert self._sent(lambda: self.write(name=name, kind="step", result=name)) == {0: None}

    def _txn(self, name: str, memo: Any) -> None:
        self._sent(
            lambda: self.node.cursor.execute(
                "with own as (insert into app values (%s, %s))"
                " select txqueue.write_step(%s, %s, %s, %s, null)",
                (
                    self.job_id,
                    name,
                    self.node.incarnation,
                    self.chunk.assignment,
                    self.job_id,
                    name,
                ),
            )
        )

    def _wait(self, name: str, memo: Any, seconds: float | None = None) -> None:
        is_over = bool(memo and memo[2] is not None and memo[2] <= 0)
        try:
            taken = self._sent(
                lambda: self.write(name=name, kind="signal", signal="go", is_over=is_over)
            )
        except Killed:
            self.job.taken.add(name)
            raise
        if taken[0] is not None or is_over:
            self.job.taken.add(name)
        if taken[0] is None and not is_over:
            self.meddle()
            self._suspend(name=name, kind="signal", signal="go", seconds=seconds)

    def _limited(self, name: str, memo: Any) -> None:
        self._wait(name, memo, 3600.0)

    def _sleep(self, name: str, memo: Any) -> None:
        if memo is None or memo[2] > 0:
            self._suspend(name=name, kind="sleep", seconds=3600.0)

    def _call(self, name: str, memo: Any) -> None:
        if memo is None:
            child = self._sent(lambda: self._enqueued(name))
        elif memo[4] in ("done", "failed", "cancelled"):
            self._sent(lambda: self.write(name=name, kind="call", result=memo[4]))
            return
        else:
            child = memo[3]
        self._suspend(name=name, kind="call", child=child)

    def _enqueued(self, name: str) -> int:
        child: int = self.node.value(
            "with child as materialized (select txqueue.enqueue('test.kind', '{}') as id)"
            " select id from child, txqueue.write_step(%s, %s, %s, %s, null, id)",
            self.node.incarnation,
            self.chunk.assignment,
            self.job_id,
            name,
        )
        return child

    def _suspend(self, **wait: Any) -> None:
        self._sent(lambda: self._settle("suspended", waits=[wait | {"hold_group": True}]))
        raise Ended


class Steps(RuleBasedStateMachine):
    """The stored functions under random runs, deaths, signals and acts of operators."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        with master(self.dsn) as session:
            session.cursor.execute(EMPTY)
            session.cursor.execute("create table app (job_id bigint, step text)")
        self.node = Master(self.dsn)
        self.jobs: dict[int, Modelled] = {}
        self.stale: list[Run] = []

    def teardown(self) -> None:
        """Let all jobs end, and look at what they have done."""
        try:
            self.finish()
        finally:
            self.node.close()

    @initialize()
    def begin(self) -> None:
        """One job to begin with, which waits twice."""
        self.enqueue(["txn", "wait", "limited"], "a", 0)

    @precondition(lambda self: len(self.jobs) < MOST_JOBS)
    @rule(script=scripts, group=st.sampled_from([None, "a", "b"]), priority=st.integers(0, 9))
    def enqueue(self, script: list[str], group: str | None, priority: int) -> None:
        """A new job, which holds its group, if it has one, at each wait."""
        (job_id,) = self.node.enqueue({"group": group, "priority": priority})
        self.jobs[job_id] = Modelled(script, group=group)

    @rule(life=st.integers(0, 6), is_late=st.booleans(), fails=st.booleans(), races=st.booleans())
    def run_some(self, life: int, is_late: bool, fails: bool, races: bool) -> None:
        """Claim jobs and run them, until each process dies or the job waits or ends."""
        self._run_all(life, is_late, fails, races)

    def _run_all(
        self, life: int = 1000, is_late: bool = False, fails: bool = False, races: bool = False
    ) -> bool:
        taken = self._claim()
        for chunk in taken:
            self._run_one(chunk, life, is_late, fails, races)
        return bool(taken)

    def _claim(self) -> list[Taken]:
        """Claim jobs: of a group one, and its holder if it has one."""
        held = {job.group: job_id for job_id, job in self.jobs.items() if job.holds}
        taken = [
            Taken(chunk.lane, chunk.assignment, [job])
            for chunk in self.node.claim()
            for job in chunk.jobs
        ]
        for chunk in taken:
            (job_id,) = chunk.ids
            group = self.jobs[job_id].group if job_id in self.jobs else None
            assert group is None or held.setdefault(group, job_id) == job_id
        return taken

    @rule(how=st.sampled_from(GIVEN_BACK))
    def give_back(self, how: str) -> None:
        """Claim jobs that do not start; some fail by the deaths of their processes."""
        for chunk in self._claim():
            if how == "unread":
                self.node.settle(chunk, how, version="test.kind#1", error="x")
            elif how == "no key":
                self.node.settle(chunk, "retry", unstarted=True, error="x")
            else:
                self.node.release(chunk.assignment, died=how == "killed", ids=chunk.ids)
            self._note_end(chunk.ids[0])

    def _note_end(self, job_id: int) -> None:
        """A job that has ended holds nothing."""
        if job_id in self.jobs and self.node.job(job_id)["state"] in ("failed", "cancelled"):
            self.jobs[job_id].holds = False

    def _run_one(self, chunk: Taken, life: int, is_late: bool, fails: bool, races: bool) -> None:
        (job_id,) = chunk.ids
        if job_id not in self.jobs:
            self.node.settle(chunk, "failed" if fails else "done", error="x")
            return
        run = Run(self.node, chunk, self.jobs[job_id], life, is_late=is_late, fails=fails)
        if races:
            run.meddle = lambda: self._race(job_id)
        try:
            run.go()
        except Ended:
            pass
        except Killed:
            self.stale.append(run)
            self.node.value(
                "select txqueue.release(%s, %s, false, ids => %s)",
                self.node.incarnation,
                [chunk.assignment],
                chunk.ids,
            )
        if run.outcome is not None:
            job = self.jobs[job_id]
            job.holds = run.outcome == "suspended" and job.group is not None

    @precondition(lambda self: self.stale)
    @rule()
    def write_late(self) -> None:
        """A process that was taken for dead goes on: nothing of it is written."""
        run = self.stale.pop()
        assert run.write(name="late", kind="step") == {}
        assert run.node.settle(run.chunk, "suspended", waits=[]) == []

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0), key=st.sampled_from([None, "a", "b"]))
    def signal(self, pick: int, key: str | None) -> None:
        """Send a signal to a job that has not ended."""
        job_id = self._picked(pick)
        if self.node.job(job_id)["state"] in ("waiting", "ready", "assigned"):
            self._send(job_id, key)

    def _send(self, job_id: int, key: str | None) -> None:
        job = self.jobs[job_id]
        is_new = self.node.value(
            "select txqueue.signal(%s, 'go', %s, %s)", job_id, str(job.sent), key
        )
        assert is_new == (key is None or key not in job.keys)
        if is_new and key is not None:
            job.keys[key] = job.sent
        job.sent += is_new

    def _race(self, job_id: int) -> None:
        """A signal comes, and another node looks at it before the wait is written."""
        self._send(job_id, None)
        self.node.value("select txqueue.propagate_late_ends()")

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0))
    def cancel(self, pick: int) -> None:
        """An operator cancels a job."""
        job_id = self._picked(pick)
        self.node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])
        self._note_end(job_id)

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0))
    def retry(self, pick: int) -> None:
        """An operator retries a job that was cancelled or has failed, or one that sleeps."""
        self.node.value("select retried from txqueue.retry(%s, 'me')", [self._picked(pick)])

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0), place=st.integers(0, 4))
    def retry_from(self, pick: int, place: int) -> None:
        """An operator retries a job from one of its steps on."""
        job_id = self._picked(pick)
        job = self.jobs[job_id]
        name = job.names[place % len(job.script)]
        begun = self._kept(job_id)
        if name in begun and self.node.job(job_id)["state"] == "cancelled":
            self.node.value("select txqueue.retry_from(%s, %s, 'me')", job_id, name)
            forgotten = list(begun)[list(begun).index(name) :]
            job.forgotten |= set(forgotten)
            job.taken -= job.forgotten
            values = [begun[each].get("result") for each in forgotten]
            job.keys = {key: value for key, value in job.keys.items() if value not in values}

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0))
    def release(self, pick: int) -> None:
        """A new release of the code of a job names its waits otherwise."""
        self.jobs[self._picked(pick)].release()

    @rule(group=st.sampled_from(["a", "b"]), act=st.sampled_from(["pause", "resume"]))
    def pause_or_resume(self, group: str, act: str) -> None:
        """An operator pauses a group, or resumes it."""
        self.node.value(f"select txqueue.{act}('group', %s, 'me')", group)

    @rule()
    def pass_time(self) -> None:
        """Two hours pass."""
        self.node.cursor.execute(DUE)

    def _picked(self, pick: int) -> int:
        return list(self.jobs)[pick % len(self.jobs)]

    def _kept(self, job_id: int) -> dict[str, Any]:
        """Return the steps of a job that has ended."""
        steps = self.node.value("select txqueue.kept_steps(%s)", job_id)
        return {step["name"]: step for step in steps or ()}

    def finish(self) -> None:
        """Send what jobs wait for until all have ended; each step was done once."""
        for group in "ab":
            self.pause_or_resume(group, "resume")
        failed = self.node.column("select job_id from txqueue.job_failed")
        self.node.value("select retried from txqueue.retry(%s, 'me')", failed)
        for _ in range(MOST_RUNS):
            waiting = self.node.column(
                "select job_id from txqueue.job_waiting where waiting_for = 'signal'"
            )
            assert self.node.column(FORGOTTEN) == []
            for job_id in waiting:
                self.node.value("select txqueue.signal(%s, 'go', '-1')", job_id)
            if not self._run_all() and not waiting:
                self.pass_time()
                if not self._run_all():
                    break
        assert set(self.node.states()) <= {"done", "cancelled", "failed"}, self.node.states()
        for job_id, job in self.jobs.items():
            self._check(job_id, job)
        assert self.node.column(SIGNALS_OF_DONE) == []
        assert self.node.column("select job_id from txqueue.group_hold") == []

    def _check(self, job_id: int, job: Modelled) -> None:
        row = self.node.job(job_id)
        kept = {
            name: step
            for name, step in self._kept(job_id).items()
            if step["kind"] != "signal" or step.get("ended_at")
        }
        if row["state"] == "done":
            assert list(kept) == job.names
        written = self.node.column("select step from app where job_id = %s", job_id)
        for name in set(written) - job.forgotten:
            assert written.count(name) == 1, name
        if not job.forgotten:
            taken = [step["result"] for step in kept.values() if "result" in step]
            values = [each for each in taken if type(each) is int]
            sent = [*range(job.sent), *[-1] * len(values)]
            assert values == sent[: len(values)], values


def test_steps_against_a_model(dsn: str) -> None:
    """Whatever happens, the steps of each job are done once, in its order, and it ends."""
    Steps.dsn = dsn
    run_state_machine_as_test(
        Steps,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
