"""Transactions that overlap, so that few of them notify the node."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from statistics import mean

from attrs import field, frozen

from txqueue.store.inquiries.reader import Session
from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.recorder import Recorder
from txqueue_torture.scenario import scenario

__all__ = ["overlapping_commits"]

ROUNDS = 5
# A lease and a poll so long that neither finds the jobs; a node is idle after so long.
LEASE, POLL, IDLE_AFTER = 60.0, "20", 3.0
# The longest of the waits, also on a busy host.
SOON = 1.5
NOOP = "txqueue_torture.noop"


@frozen
class Enqueuer:
    """Enqueues jobs and records them.

    Attributes:
        testbed: The scenario's environment.
        recorder: Records the jobs.
        committed: When a job was committed, by its intent.
    """

    testbed: Testbed
    recorder: Recorder
    committed: dict[str, float] = field(factory=dict)

    def enqueue(self, session: Session, intent: str) -> int:
        """Enqueue a job in a transaction that stays open."""
        self.recorder.write("enqueue", intent=intent, kind="noop", outcome="attempted")
        session.rows("begin")
        sql = f"select {self.testbed.schema}.enqueue(%s, %s)"
        return int(session.value(sql, (NOOP, json.dumps({"intent": intent}))))

    def commit(self, session: Session, intent: str, job_id: int) -> None:
        """Commit it."""
        session.rows("commit")
        self.committed[intent] = time.monotonic()
        self.recorder.write("enqueue", intent=intent, outcome="acknowledged", job_id=job_id)

    def wait(self, intent: str) -> float:
        """Wait until a job runs; return how long after its commit that was."""
        self.testbed.wait(lambda: intent in self._begun(), f"{intent} runs", every=0.2)
        return self._begun()[intent] - self.committed[intent]

    def _begun(self) -> dict[str, float]:
        return {run.intent: run.began for run in self.testbed.history().runs}


@scenario("overlapping_commits", "transactions overlap, so that few notify; some commit late")
def overlapping_commits(testbed: Testbed) -> None:
    """Enqueue in three transactions at a time, and then in one: no job waits for a poll."""
    testbed.start_node("n1", lease=LEASE, options=("--poll", POLL)).wait_up()
    late, alone = [], []
    with ExitStack() as stack, testbed.fault("overlap", snapshot=False) as fault:
        recorder = stack.enter_context(closing(Recorder(testbed.folder, "turns", testbed.dsn)))
        enqueuer = Enqueuer(testbed, recorder)
        sessions = [stack.enter_context(testbed.database.session()) for _ in range(3)]
        for number in range(int(ROUNDS * testbed.scale)):
            late.append(_overlapping(enqueuer, sessions, number))
            testbed.rest(IDLE_AFTER)
            alone.append(_alone(enqueuer, sessions[1], f"alone-{number}"))
        fault.evidence = f"{len(late)} transactions committed after those that had notified"
    testbed.drain()
    no_duplicates(testbed)
    for name, waits in {"late": late, "alone": alone}.items():
        testbed.figure(f"{name}_wait", round(mean(waits), 3))
        testbed.expect(max(waits) < SOON, f"{name}: {max(waits):.3f} s, and not {SOON} s")


def _overlapping(enqueuer: Enqueuer, sessions: list[Session], number: int) -> float:
    """Enqueue in each session, and commit the last of them late; return how long its job waits."""
    intents = [f"{place}-{number}" for place in ("first", "second", "late")]
    ids = [enqueuer.enqueue(*each) for each in zip(sessions, intents, strict=True)]
    for each in list(zip(sessions, intents, ids, strict=True))[:2]:
        enqueuer.commit(*each)
    enqueuer.testbed.rest(IDLE_AFTER)
    enqueuer.commit(sessions[2], intents[2], ids[2])
    return enqueuer.wait(intents[2])


def _alone(enqueuer: Enqueuer, session: Session, intent: str) -> float:
    """Enqueue while no other transaction is open; return how long the job waits."""
    enqueuer.commit(session, intent, enqueuer.enqueue(session, intent))
    return enqueuer.wait(intent)
