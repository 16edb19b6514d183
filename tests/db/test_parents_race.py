"""Random races of new children with the ends of their parents: no child waits without end."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.db.masters import Master, master

JOBS, ENQUEUERS, MASTERS = 150, 3, 2
LIMIT = 240.0


def enqueue(dsn: str, seed: int) -> None:
    """Enqueue jobs that wait for any that are there, in transactions that last or are undone."""
    chance = random.Random(seed)
    with master(dsn, f"enqueuer {seed}") as session:
        session.connection.autocommit = False
        for _ in range(JOBS):
            known = session.column("select job_id from txqueue.job order by job_id desc limit 15")
            parents = chance.sample(known, min(len(known), chance.randint(0, 4)))
            child = session.value(
                "select txqueue.enqueue('test.kind', '{}', after => %s::bigint[],"
                " after_any_end => %s)",
                parents,
                any_end := chance.random() < 0.3,
            )
            session.cursor.execute(
                "insert into app select %s, parent, %s from unnest(%s::bigint[]) as parent",
                (child, any_end, parents),
            )
            if chance.random() < 0.3:
                session.value("select pg_sleep(%s)", chance.random() / 50)
            if chance.random() < 0.1:
                session.connection.rollback()
            else:
                session.connection.commit()


def work(dsn: str, seed: int, is_over: Callable[[], bool]) -> None:
    """End jobs in all ways until none is left."""
    chance = random.Random(seed)
    with master(dsn, f"master {seed}") as session:
        while not is_over() or session.states().keys() & {"waiting", "ready", "assigned"}:
            for chunk in session.claim(5):
                fate = chance.random()
                if fate < 0.7:
                    session.complete(chunk)
                elif fate < 0.8:
                    give_back(session, chunk.assignment)
                else:
                    session.settle(chunk, chance.choice(["failed", "cancelled", "done"]))
            if chance.random() < 0.05:
                doomed = session.column("select job_id from txqueue.job_waiting limit 1")
                session.value("select cancelled from txqueue.cancel(%s, 'ann')", doomed)


def give_back(session: Master, assignment: int) -> None:
    """Return the jobs of an assignment; one that an enqueuer has locked goes by a later call."""
    held = "select count(*) from txqueue.job_assigned where assignment = %s"
    while session.value(held, assignment):
        session.release(assignment)


def test_no_call_waits_without_limit(node: Master, dsn: str) -> None:
    """Each child ran after its parents, or was cancelled because one was not done."""
    node.cursor.execute("create table app (child bigint, parent bigint, any_end boolean)")
    with ThreadPoolExecutor(ENQUEUERS + MASTERS) as threads:
        enqueuers = [threads.submit(enqueue, dsn, n) for n in range(ENQUEUERS)]
        are_over = lambda: all(each.done() for each in enqueuers)  # noqa: E731 - one line
        masters = [threads.submit(work, dsn, n, are_over) for n in range(MASTERS)]
        for each in (*enqueuers, *masters):
            each.result(LIMIT)
    early = """
        select child.job_id from app join txqueue.job as child on child.job_id = app.child
          join txqueue.job as parent on parent.job_id = app.parent
         where child.assigned_at < parent.finished_at
            or not any_end and child.state <> 'cancelled' and parent.state <> 'done'
    """
    assert node.column(early) == []
    orphaned = """
        select job_id from txqueue.job
         where error like 'cancelled: parent %%' and not exists (
            select from app join txqueue.job as parent on parent.job_id = app.parent
             where app.child = job.job_id and not any_end and parent.state <> 'done')
    """
    assert node.column(orphaned) == []
    node.value("select owned from txqueue.heartbeat(%s, 0)", node.incarnation)
    assert node.value("select count(*) from txqueue.job_parent") == 0
    assert node.value("select count(*) from txqueue.late_end") == 0
