"""The lock order of schema/README.md: every statement at each of its lock steps, and every pair.

A session holds one lock, so that a statement stops where it waits for that lock. What the
statement holds there must come before that lock in the order; another statement that runs
meanwhile must not end in a deadlock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
from attrs import frozen

from tests.db.masters import Master, master
from tests.db.test_parents import put

pytestmark = pytest.mark.slow("schema")

PATIENCE = 60.0
SHORTLY = 0.002
ROW = "select from txqueue.{} for update"
JOB = ROW.format(
    "job where job_id = {{{}}} and state in ('waiting', 'ready', 'assigned', 'failed')"
)
# In the order of schema/README.md; jobs are named as in `prepared()`.
ORDER = {
    "schedule": ROW.format("schedule where name = 'cool'"),
    "workset": ROW.format("workset where name = 'w'"),
    "key f": "insert into txqueue.unique_job (work_type, key, job_id) values ('test.kind', 'f', 0)",
    "key k": ROW.format("unique_job where key = 'k'"),
    "failed": JOB.format("failed"),
    "keyed": JOB.format("keyed"),
    "parked": JOB.format("parked"),
    "ready": JOB.format("ready"),
    "holder": JOB.format("holder"),
    "sibling": JOB.format("sibling"),
    "child": JOB.format("child"),
    "heir": JOB.format("heir"),
    "group": ROW.format("key_lock where key = txqueue.key_of('g')"),
    "claiming": "lock table txqueue.claiming in exclusive mode",
}
PLACE = {name: place for place, name in enumerate(ORDER)}

SETTLE = (
    "select txqueue.settle({incarnation}, jsonb_build_array(jsonb_build_object("
    "'job_id', {holder}, 'assignment', {assignment}, 'outcome', '%s')))"
)
CLAIM = (
    "select txqueue.next_job({node_id}, {incarnation},"
    " '{{default}}', '{{test.kind}}', 9, 9, 9, 9, 1)"
)
COMPLETE_ONE = "select txqueue.complete_one({incarnation}, {assignment}, {holder}, null)"
UNIQUE = "select txqueue.enqueue('test.kind', '{{}}', \"unique\" => '%s', unique_mode => '%s')"
REQUEST = (
    "insert into txqueue.request select 0, job_id, 0, 'me'"
    " from unnest('{{{parked},{child}}}'::bigint[]) as job_id"
)
STATEMENTS = {
    "claim": [CLAIM],
    "claim with late ends": [
        "insert into txqueue.late_end values ({holder}), ({sibling})",
        "select setval('txqueue.has_late_ends', 1)",
        CLAIM,
    ],
    "complete": [
        "select txqueue.complete({incarnation}, array[{lane}]::smallint[],"
        " array[{assignment}]::bigint[], array['{{{holder}}}'])"
    ],
    "complete one": [COMPLETE_ONE],
    "fail": [SETTLE % "failed"],
    "wait": [SETTLE % "suspended"],
    "signal": ["select txqueue.signal({holder}, 'go')"],
    "claim with a signal": ["select txqueue.signal({holder}, 'go')", CLAIM],
    "write a step": ["select txqueue.write_step({incarnation}, {assignment}, {holder}, 'a', null)"],
    "retry from a step": [
        "insert into txqueue.job_step (job_id, name, kind) values ({failed}, 'a', 'step')",
        "select txqueue.retry_from({failed}, 'a', 'me')",
    ],
    "retry later": [SETTLE % "retry"],
    "settle": [SETTLE % "cancelled"],
    "release": ["select txqueue.release({incarnation}, array[{assignment}]::bigint[], true)"],
    "poison": [
        "update txqueue.job_assigned set deaths = 4 where job_id = {holder}",
        "select txqueue.release({incarnation}, array[{assignment}]::bigint[], true)",
    ],
    "leave": ["select txqueue.leave({incarnation}, 'stopped')"],
    "declare dead": ["select txqueue.mark_dead(array[{incarnation}])"],
    "rescue": ["select txqueue.rescue()"],
    "register": [
        "select txqueue.register_node('node', 'host', 1, null, 10, 100,"
        " '{{default}}', '[]', '', null)"
    ],
    "heartbeat": [
        "insert into txqueue.late_end values ({holder})",
        "insert into txqueue.late_group values ('g')",
        REQUEST,
        "select txqueue.heartbeat({incarnation}, 0)",
    ],
    "late groups": [
        "insert into txqueue.late_group values ('g')",
        "select txqueue.free_late_groups()",
    ],
    "rotate": ["select txqueue.rotate()"],
    "enqueue": ["select txqueue.enqueue('test.kind', '{{}}', \"group\" => 'g')"],
    "enqueue a child": [
        "select txqueue.enqueue('test.kind', '{{}}', after => array[{holder}, {parked}])"
    ],
    "keep": [UNIQUE % ("k", "keep")],
    "replace": [UNIQUE % ("k", "replace")],
    "again": [UNIQUE % ("f", "again")],
    "cancel": [
        "select txqueue.cancel(array[{ready}, {parked}, {child}, {failed}, {holder}], 'me')"
    ],
    "cancel a parent": ["select txqueue.cancel(array[{child}, {keyed}], 'me')"],
    "restart": ["select txqueue.restart(array[{holder}, {sibling}, {ready}], 'me')"],
    "retry": ["select txqueue.retry(array[{failed}, {keyed}, {heir}], 'me')"],
    "priority": [
        "select txqueue.set_priority(array[{ready}, {keyed}, {parked}, {child}], 9, 'me')"
    ],
    "reschedule": [
        "select txqueue.reschedule(array[{ready}, {keyed}, {parked}, {child}], now(), 'me')"
    ],
    "delete": ["select txqueue.delete_jobs(array[{ready}, {parked}, {child}, {failed}], 'me')"],
    "undo": [
        "select txqueue.cancel(array[{ready}, {failed}, {holder}], 'me')",
        "select txqueue.undo(max(action_id), 'me') from txqueue.action",
    ],
    "postpone": ["select txqueue.postpone_failures('{kind}', 'me', 60)"],
    "discard": ["select txqueue.discard_failures('{kind}', 'me')"],
    "retry a kind": ["select txqueue.retry_failures('{kind}', 'me')"],
    "repeat": ["select txqueue.repeat({failed}, 'me')"],
    "pause a group": ["select txqueue.pause('group', 'g', 'me')"],
    "pause a queue": ["select txqueue.pause('queue', 'default', 'me')"],
    "limit": ["select txqueue.set_limit('group', 'g', 1, null, null, null, null, 'me')"],
    "tick": [
        "update txqueue.schedule set next_due = '-infinity'",
        "select txqueue.tick(jsonb_build_array(jsonb_build_object("
        "'schedule_id', schedule_id, 'moments', array[now()]))) from txqueue.schedule",
    ],
    "run a schedule": ["select txqueue.run_schedule('cool', 'me')"],
    "pause a schedule": ["select txqueue.pause_schedule('cool', 'me')"],
    "publish schedules": ["select txqueue.publish_schedules('{{test.kind}}', '[]')"],
    "remove a schedule": ["select txqueue.remove_schedule('cool', 'me')"],
    "missed cool-downs": ["select txqueue.start_missed_cooldowns()"],
    "fill a workset": ["select txqueue.fill_workset('w', '[{{}}]')"],
    "start a workset": ["select txqueue.start_workset('w')"],
    "retry a workset": ["select txqueue.retry_workset('w')"],
    "coalesce": [
        "select txqueue.coalesce_into({incarnation}, {assignment}, {holder}, 9, true)",
        COMPLETE_ONE,
    ],
    "follow up": [UNIQUE % ("f", "keep"), UNIQUE % ("k", "replace"), COMPLETE_ONE],
    "run and end": ["select txqueue.run_schedule('cool', 'me')", COMPLETE_ONE],
    "fill and end": ["select txqueue.fill_workset('w', '[{{}}]')", COMPLETE_ONE],
}


@frozen
class Scene:
    """A database in which each statement finds what it locks; each is rolled back."""

    dsn: str
    values: dict[str, Any]
    blocker: Any
    watcher: Any
    threads: ThreadPoolExecutor

    @contextmanager
    def held(self, lock: str) -> Iterator[None]:
        """Hold a lock."""
        with self.blocker.cursor() as cursor:
            cursor.execute(ORDER[lock].format(**self.values))
            try:
                yield
            finally:
                self.blocker.rollback()

    def start(self, session: Any, name: str) -> tuple[Future[str | None], bool]:
        """Start a statement; returns what it will end with, and whether it waits for a lock."""
        ended = self.threads.submit(self._run, session, STATEMENTS[name])
        pid = session.info.backend_pid
        deadline = time.monotonic() + PATIENCE
        # To ask without a pause takes the core that the statement needs.
        while not wait([ended], SHORTLY).done and time.monotonic() < deadline:
            with self.watcher.cursor() as cursor:
                cursor.execute("select pg_blocking_pids(%s) <> '{}'", (pid,))
                if cursor.fetchall()[0][0]:
                    return ended, True
        return ended, False

    def _run(self, session: Any, statements: list[str]) -> str | None:
        try:
            with session.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement.format(**self.values))
        except psycopg2.Error as error:
            return error.pgcode
        finally:
            session.rollback()
        return None

    def taken(self, but: str) -> list[str]:
        """The locks that some session holds, except one."""
        found = []
        for name, sql in ORDER.items():
            if name != but:
                with self.watcher.cursor() as cursor:
                    cursor.execute("begin; set local lock_timeout = 1")
                    try:
                        cursor.execute(sql.format(**self.values))
                    except psycopg2.errors.LockNotAvailable:
                        found.append(name)
                    finally:
                        cursor.execute("rollback")
        return found


def prepared(node: Master) -> dict[str, Any]:
    """Put a job in each state, related to the others in each way; returns their numbers."""
    node.value("select txqueue.set_limit('group', 'g', 2, null, null, null, null, 'me')")
    unique = "select txqueue.enqueue('test.kind', '{}', \"unique\" => %s)"
    failed = node.value(unique, "f")
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error="x")
    holder, sibling, parked, _ = node.enqueue(*[{"group": "g"}] * 4)
    chunks = node.claim()
    assert [job for each in chunks for job in each.ids] == [holder, sibling]
    child = put(node, [holder, sibling], group="g")
    heir = put(node, [child])
    keyed = node.value(
        "select txqueue.enqueue('test.kind', '{}', \"unique\" => 'k', \"group\" => 'g',"
        " not_before => '2999-01-01')"
    )
    (ready,) = node.enqueue({})
    node.value(
        'select txqueue.put_schedule(\'cool\', \'{"kind": "cooldown", "seconds": 60}\','
        ' \'{"work_type": "test.kind", "payload": {}, "unique": "k"}\', null, \'me\')'
    )
    node.cursor.execute("update txqueue.schedule set last_job = %s, next_due = null", (holder,))
    node.cursor.execute("update txqueue.job_assigned set followed = 1")
    node.value(
        'select txqueue.ensure_workset(\'{"name": "w", "work_type": "test.kind", "size": 1,'
        ' "job": {"work_type": "test.kind", "payload": {}}, "batch": 10, "columns": []}\')'
    )
    return {
        "node_id": node.node_id,
        "incarnation": node.incarnation,
        "lane": chunks[0].lane,
        "assignment": chunks[0].assignment,
        "kind": node.value("select fingerprint from txqueue.job_failed"),
        **{"failed": failed, "holder": holder, "sibling": sibling, "parked": parked},
        **{"child": child, "heir": heir, "keyed": keyed, "ready": ready},
    }


@pytest.fixture
def scene(migrated_database18: str) -> Iterator[Scene]:
    """The scene, and the sessions that look at it."""
    dsn = migrated_database18
    with (
        master(dsn) as node,
        closing(psycopg2.connect(dsn)) as blocker,
        closing(psycopg2.connect(dsn)) as watcher,
        ThreadPoolExecutor(2) as threads,
    ):
        watcher.autocommit = True
        yield Scene(dsn, prepared(node), blocker, watcher, threads)


@contextmanager
def session(scene: Scene) -> Iterator[Any]:
    """A session that runs statements, and notices deadlocks soon."""
    # Longer than rotate() waits for a lane, as on every server: that wait ends by itself.
    with closing(psycopg2.connect(scene.dsn, options="-c deadlock_timeout=100ms")) as connection:
        yield connection


def test_each_statement_waits_only_for_locks_that_come_later(scene: Scene) -> None:
    """At each lock for which it waits, it holds none that comes after that lock."""
    wrong = []
    steps = 0
    with session(scene) as runner:
        for name in STATEMENTS:
            for lock in ORDER:
                with scene.held(lock):
                    ended, waits = scene.start(runner, name)
                    if waits:
                        steps += 1
                        late = [each for each in scene.taken(lock) if PLACE[each] > PLACE[lock]]
                        wrong += (
                            [f"{name}: waits for {lock}, holds {', '.join(late)}"] if late else []
                        )
                assert ended.result(PATIENCE) in (None, "TXQ01", "TXQ04"), name
    assert not wrong, "\n".join(wrong)
    assert steps > len(STATEMENTS)


def test_no_pair_of_statements_ends_in_a_deadlock(scene: Scene) -> None:
    """The first is stopped at each lock for which it waits, while the second runs."""
    wrong = []
    with session(scene) as first, session(scene) as second:
        for name in STATEMENTS:
            for lock in ORDER:
                for other in STATEMENTS:
                    with scene.held(lock):
                        ended, waits = scene.start(first, name)
                        if waits:
                            other_ended, _ = scene.start(second, other)
                    codes = [
                        ended.result(PATIENCE),
                        other_ended.result(PATIENCE) if waits else None,
                    ]
                    if "40P01" in codes:
                        wrong.append(f"{name} at {lock}, and {other}")
                    if not waits:
                        break
    assert not wrong, "\n".join(wrong)
