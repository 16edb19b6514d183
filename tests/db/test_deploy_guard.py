"""The deploy guard in the database: what it holds, what it gives back, and what says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import Factory, define
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.db.conftest import EMPTY
from tests.db.masters import Master, master
from tests.db.stored import Taken
from tests.db.test_explain import explained
from txqueue.policy.findings.obstacles import HeldType

OLD, NEW, NEWER = "11111111", "22222222", "33333333"
FAILURES, SHARE = 3, 0.3


class Version:
    """A node whose workers run one version of the application, with the guard."""

    def __init__(self, dsn: str, application: str) -> None:
        self.types = ["test.kind"]
        self.session, self.application = Master(dsn, application), application
        self.session.reports(applications=[application], held=[])

    def look(self, *others: str, at_most: int = 1000) -> list[HeldType]:
        """Look as its guard does; return what is held, of all versions."""
        applications = [self.application, *others]
        self.session.cursor.execute(
            "select * from txqueue.guard_versions(%s, %s, %s, %s, %s)",
            (self.session.incarnation, applications, self.types, FAILURES, SHARE),
        )
        held = [HeldType(*row) for row in self.session.cursor.fetchall()]
        self.session.value("select txqueue.return_held(%s)", at_most)
        return held

    def end(self, chunk: Taken, error: str | None, outcome: str = "failed") -> int:
        """End a run: it fails by the error, or is done; return the job's number."""
        if error is None:
            self.session.complete(chunk)
        else:
            name = f"builtins.{error.partition(':')[0]}"
            by = {"error": error, "error_class": name, "application": self.application}
            self.session.settle(chunk, outcome, delay=3600, **by)
        return chunk.ids[0]

    def runs(self, *errors: str | None, outcome: str = "failed", **options: object) -> list[int]:
        """Enqueue and run a job for each; return their numbers."""
        ids = []
        for error in errors:
            self.session.enqueue(options)
            (chunk,) = self.session.take(1, work_types=self.types).chunks
            ids.append(self.end(chunk, error, outcome))
        return ids

    @property
    def serves(self) -> bool:
        """Whether the node says that it serves the type: direct dispatch chooses no other."""
        sql = "select work_types = '{test.kind}' from txqueue.node_info where incarnation = %s"
        return bool(self.session.value(sql, self.session.incarnation))


@pytest.fixture
def old(emptied_database18: str) -> Iterator[Version]:
    """A version that has run the type."""
    version = Version(emptied_database18, OLD)
    assert version.look() == []
    yield version
    version.session.close()


@pytest.fixture
def new(old: Version, emptied_database18: str) -> Iterator[Version]:
    """A version that has just begun."""
    version = Version(emptied_database18, NEW)
    assert version.look() == []
    yield version
    version.session.close()


def test_a_new_kind_of_failure_holds_the_type(new: Version) -> None:
    """Its jobs come back with their attempts, its node is given no more, and explain says why."""
    done, *failed = new.runs(None, "KeyError: 'a'", "KeyError: 'b'")
    assert new.look() == []
    failed += new.runs("KeyError: 'c'", outcome="retry")
    (held,) = new.look()
    assert str(held) == f"held: test.kind on {NEW}: KeyError: 'c' (3 of 4)"
    assert sorted(new.session.ready()) == failed
    assert {new.session.job(job_id)["attempt"] for job_id in failed} == {0}
    assert new.session.job(done)["state"] == "done"
    assert not new.serves


def test_no_path_leads_to_a_held_type(old: Version, new: Version) -> None:
    """Direct dispatch neither; nor to a node of which one worker runs the held version."""
    new.runs(*["KeyError: 'a'"] * 3)
    new.look()
    assert not new.serves
    sql = "select assignment from txqueue.enqueue_assigned(%s, %s, 'test.kind', '{}')"
    assert new.session.value(sql, new.session.node_id, new.session.incarnation) is None
    old.look(NEW)
    assert not old.serves
    old.look()
    assert old.serves


def test_two_types_are_held_at_a_time(old: Version, new: Version) -> None:
    """By the same kind of failure; each gets its own jobs back, and is released by itself."""
    for each in (old, new):
        each.session.publish("test.other")
        each.types = ["test.kind", "test.other"]
        assert each.look() == []
    errors = ["KeyError: 'a'"] * 3
    ids = new.runs(*errors) + new.runs(*errors, work_type="test.other")
    assert [held.work_type for held in new.look()] == new.types
    assert sorted(new.session.ready()) == ids
    served = "select work_types from txqueue.node_info where incarnation = %s"
    assert new.session.value(served, new.session.incarnation) == []
    assert new.session.value("select txqueue.release_type('test.kind', 'ann')")
    assert [held.work_type for held in new.look()] == ["test.other"]
    assert new.session.value(served, new.session.incarnation) == ["test.kind"]


def test_jobs_that_cannot_be_opened_keep_no_others_back(new: Version) -> None:
    """Those whose unique key another job holds by now, however many come first."""
    [blocked] = new.runs("KeyError: 'a'", unique="k")
    failed = new.runs(*["KeyError: 'a'"] * 2)
    [holder] = new.session.enqueue({"unique": "k"})
    for _ in failed:
        new.look(at_most=1)
    assert sorted(new.session.ready()) == [*failed, holder]
    assert new.session.job(blocked)["state"] == "failed"


def test_a_job_that_was_claimed_at_the_hold_gets_its_attempts_back(new: Version) -> None:
    """Its node releases it unstarted; only what the kind that holds the type has spent."""
    (job_id,) = new.session.enqueue({})
    for error in ("ValueError: x", "KeyError: 'a'"):
        new.session.value("select retried from txqueue.retry(%s, 'me')", [job_id])
        new.end(new.session.claim(1)[0], error, "retry")
    new.session.value("select retried from txqueue.retry(%s, 'me')", [job_id])
    (claimed,) = new.session.claim(1)
    new.runs(*["KeyError: 'a'"] * 2)
    assert new.look()
    new.session.release(claimed.assignment)
    for _ in range(2):
        new.look()
        assert new.session.job(job_id)["attempt"] == 1


def test_other_attempts_stay_spent(new: Version) -> None:
    """Only those of the kind that holds the type are given back; a job that waits runs at once."""
    (job_id,) = new.session.enqueue({})
    for error in ("ValueError: x", "KeyError: 'a'", "KeyError: 'b'", "KeyError: 'c'"):
        new.session.value("select retried from txqueue.retry(%s, 'me')", [job_id])
        new.end(new.session.claim(1)[0], error, "retry")
    new.look()
    job = new.session.job(job_id)
    assert (job["state"], job["attempt"]) == ("ready", 1)
    # It was claimed before its node noticed; what was given back is not given twice.
    new.end(new.session.claim(1)[0], "KeyError: 'd'", "retry")
    new.look()
    assert new.session.job(job_id)["attempt"] == 1


def test_what_redacted_work_says_is_not_shown(new: Version) -> None:
    """Its messages may have what its payload has."""
    new.session.publish("test.kind", policy={"redacted": True})
    new.runs(*["KeyError: 'a'"] * 3)
    assert str(new.look()[0]) == f"held: test.kind on {NEW}: builtins.KeyError (3 of 3)"


def test_a_version_of_yesterday_is_not_held(new: Version) -> None:
    """What fails then was not deployed: some service that it calls is gone."""
    new.session.cursor.execute("update txqueue.version_failure set since = since - interval '2 d'")
    new.runs(*["KeyError: 'a'"] * 5)
    assert new.look() == []


def test_a_hold_outlasts_rare_failures_of_the_older_version(old: Version, new: Version) -> None:
    """A bad job fails on both; the others fail on the new one only."""
    new.runs(*["KeyError: 'a'"] * 3)
    assert new.look()
    old.runs("KeyError: 'a'", *[None] * 4)
    assert new.look()
    old.runs("KeyError: 'a'")
    assert not new.look()


def test_jobs_wait_in_sight_until_the_type_is_released(old: Version, new: Version) -> None:
    """Explain names the hold; once an operator has released it, the same failures are for good."""
    (job_id, *_) = new.runs(*["KeyError: 'a'"] * 3)
    (held,) = new.look()
    assert explained(new.session, job_id).reason == "next"
    old.session.value("select txqueue.leave(%s, 'stopped')", old.session.incarnation)
    told = explained(new.session, job_id)
    assert (told.reason, told.detail) == ("held", str(held))
    assert "txqueue release test.kind" in told.remedy
    assert new.session.value("select txqueue.release_type('test.kind', 'ann')")
    assert not new.session.value("select txqueue.release_type('test.kind', 'ann')")
    assert new.look() == []
    assert explained(new.session, job_id).reason == "next"
    new.runs(*["KeyError: 'a'"] * 5)
    assert new.look() == []
    assert new.session.states() == {"ready": 3, "failed": 5}


def test_nothing_comes_back_to_a_node_without_the_guard(
    new: Version, emptied_database18: str
) -> None:
    """It would run such jobs again and again."""
    with master(emptied_database18, "unguarded") as other:
        other.reports(applications=[NEW])
        new.runs(*["KeyError: 'a'"] * 3)
        assert new.look()
        assert new.session.states() == {"failed": 3}
        other.reports(applications=[NEW], held=[])
        assert new.look()
        assert new.session.states() == {"ready": 3}


VERSIONS = (OLD, NEW, NEWER)
Kind = tuple[str, str]
"""A version, and how runs failed on it."""


@define
class Model:
    """What the guard decides, in plain Python.

    Attributes:
        seen: How many runs there were when each version has run or has looked first, in order.
        runs: All runs: the version, and how it failed, or None.
        failed: The failed runs of each job, of which those that are given back are forgotten.
        held: What is held, and which share of the runs failed so.
        released: What an older version has had since.
    """

    seen: dict[str, int] = Factory(dict)
    runs: list[tuple[str, str | None]] = Factory(list)
    failed: dict[int, list[Kind]] = Factory(dict)
    states: dict[int, str] = Factory(dict)
    held: dict[Kind, float] = Factory(dict)
    released: set[Kind] = Factory(set)

    def see(self, version: str) -> None:
        """Note that a version is there."""
        self.seen.setdefault(version, len(self.runs))

    def is_new(self, kind: Kind, share: float) -> bool:
        """Whether older versions, of which there are some, have not failed so."""
        order, began = list(self.seen), self.seen[kind[0]]
        older = {(version, kind[1]) for version in order[: order.index(kind[0])]}
        is_held = kind in self.held
        known = [self.has(each, began, share, is_held=is_held) for each in older - {*self.held}]
        return bool(older) and not any(known)

    def has(self, kind: Kind, began: int, share: float, *, is_held: bool) -> bool:
        """Whether a version has a kind of failure, in comparison with one that began later."""
        since = [run for run in self.runs[began:] if run[0] == kind[0]]
        if since and kind in self.runs:
            return 4 * since.count(kind) >= share * len(since)
        return not is_held and kind in self.runs[:began]

    def look(self, version: str) -> None:
        """Decide as the guard of a node with this version does, and give back jobs."""
        self.see(version)
        ended = {kind for kind, share in self.held.items() if not self.is_new(kind, share)}
        self.released |= ended
        for kind in ended:
            del self.held[kind]
        mine = [run for run in self.runs if run[0] == version]
        kinds = {(version, error) for _, error in mine if error is not None}
        for kind in kinds - self.released - {*self.held}:
            share = mine.count(kind) / len(mine)
            if mine.count(kind) >= FAILURES and share >= SHARE and self.is_new(kind, share):
                self.held[kind] = share
        for job_id, state in self.states.items():
            if state in ("failed", "waiting") and (last := self.failed[job_id][-1]) in self.held:
                self.states[job_id] = "ready"
                self.failed[job_id] = [kind for kind in self.failed[job_id] if kind != last]


class Deploys(RuleBasedStateMachine):
    """Three versions that come and fail in any order, beside the model."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        with master(self.dsn) as session:
            session.cursor.execute(EMPTY)
        self.model = Model()
        self.nodes = {version: Version(self.dsn, version) for version in VERSIONS}
        self.session = self.nodes[OLD].session

    def teardown(self) -> None:
        """Close the sessions."""
        for node in self.nodes.values():
            node.session.close()

    @rule(
        version=st.sampled_from(VERSIONS),
        error=st.sampled_from([None, "KeyError: 'a'", "OSError: b"]),
        outcome=st.sampled_from(["failed", "retry"]),
        times=st.integers(1, 4),
    )
    def run(self, version: str, error: str | None, outcome: str, times: int) -> None:
        """Run jobs on a version, also such as have come back; its node serves the type or not."""
        node = self.nodes[version]
        for _ in range(times if node.serves else 0):
            node.session.enqueue({})
            job_id = node.end(node.session.claim(1)[0], error, outcome)
            self.model.failed.setdefault(job_id, [])
            self.model.states[job_id] = "waiting" if outcome == "retry" else "failed"
            if error is None:
                self.model.states[job_id] = "done"
            else:
                self.model.see(version)
                self.model.failed[job_id].append((version, error))
            self.model.runs.append((version, error))

    @rule(version=st.sampled_from(VERSIONS))
    def look(self, version: str) -> None:
        """All that is held is new, no job has failed for good by it, and none waits unseen."""
        held = self.nodes[version].look()
        self.model.look(version)
        assert {(each.application, each.error) for each in held} == {*self.model.held}
        assert self.nodes[version].serves == (version not in {kind[0] for kind in self.model.held})
        waits = not any(node.serves for node in self.nodes.values())
        for job_id in self.session.ready()[:3]:
            assert (explained(self.session, job_id).reason == "held") == waits

    @invariant()
    def compare(self) -> None:
        """Each job that has run has the state and the attempts of the model."""
        self.session.cursor.execute("select job_id, state::text, attempt from txqueue.job")
        rows = {job_id: (state, attempt) for job_id, state, attempt in self.session.cursor}
        for job_id, state in self.model.states.items():
            attempts = len(self.model.failed[job_id]) + (state == "done")
            assert rows[job_id] == (state, attempts)


def test_the_guard_does_as_the_model(emptied_database18: str) -> None:
    """Whatever versions run what in whatever order."""

    class OnDatabase(Deploys):
        dsn = emptied_database18

    run_state_machine_as_test(
        OnDatabase,
        settings=settings(
            max_examples=15,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
