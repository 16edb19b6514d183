"""The faults that tests of ``txqueue doctor`` plant in a healthy installation, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

import psycopg2
from attrs import frozen
from psycopg2.extensions import parse_dsn

__all__ = ["HEALTHY", "OF_SECONDS", "PLANTS", "Plant", "execute", "opened", "planted", "setting"]

NODE: Final = (
    "insert into txqueue.node_info (name, hostname, pid, incarnation, lease, capacity, queues,"
    " work_types, heartbeat_at, version) values ('{name}', 'host', 7,"
    " nextval('txqueue.incarnation'), '1 h', 100, '{{default}}', '{{test.kind}}', now(),"
    " '{version}')"
)
TYPE: Final = "insert into txqueue.work_type values ('test.kind', 'default', 4, 1)"
JOB: Final = "select txqueue.enqueue('test.kind', '{}')"
SCHEDULE: Final = (
    "insert into txqueue.schedule (name, kind, seconds, job, next_due) values"
    """ ('nightly', 'every', 60, '{{"work_type": "test.kind"}}', now() + interval '{due}')"""
)
RELOAD: Final = "select pg_reload_conf(), pg_sleep(0.3)"
TODAY: Final = "to_char(now() at time zone 'UTC', 'YYYYMMDD')"


def node(name: str = "n1", version: str = "1") -> str:
    """Return the statement that registers a node."""
    return NODE.format(name=name, version=version)


def setting(name: str, value: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the statements that change a setting of the server, and that reset it."""
    return (f"alter system set {name} = {value}", RELOAD), (f"alter system reset {name}", RELOAD)


@frozen
class Plant:
    """A fault that statements plant: the check that finds it, and what it says.

    A statement after `held` runs in a session whose transaction stays open.
    """

    check: str
    says: str
    exits: int
    sql: Sequence[str] = ()
    undo: Sequence[str] = ()
    held: Sequence[str] = ()

    def __str__(self) -> str:
        return self.check


def fault(check: str, says: str, *sql: str, **more: Sequence[str]) -> Plant:
    """Return what ends the command with 1."""
    return Plant(check, says, 1, sql, **more)


def warning(check: str, says: str, *sql: str, **more: Sequence[str]) -> Plant:
    """Return what ends it with 0."""
    return Plant(check, says, 0, sql, **more)


def of_server(check: str, name: str, value: str, says: str) -> Plant:
    """Return the fault of a setting of the server."""
    change, undo = setting(name, value)
    return Plant(check, says, 1, change, undo)


def of_database(check: str, name: str, value: str, says: str, exits: int = 1) -> Plant:
    """Return the fault of a setting of the test's database."""
    return Plant(check, says, exits, (f"alter database {{db}} set {name} = {value}",))


PLANTS: Final = (
    of_database("writable", "default_transaction_read_only", "on", "read-only by default"),
    of_server("durability", "fsync", "off", "fsync is off"),
    of_server("durability", "full_page_writes", "off", "full_page_writes is off"),
    of_database("durability", "synchronous_commit", "off", "synchronous_commit is off", 0),
    of_server("synchronous-standby", "synchronous_standby_names", "'s1'", "'s1' is connected"),
    of_database("isolation", "default_transaction_isolation", "'repeatable read'", "repeatable"),
    of_server("autovacuum", "autovacuum", "off", "autovacuum is off"),
    of_database("track-counts", "track_counts", "off", "track_counts is off"),
    of_database("idle-limit", "idle_in_transaction_session_timeout", "'2s'", "is 2.0 s", 0),
    fault("connections", "of 2 connections", "alter database {db} connection limit 2", held=("",)),
    warning(
        "notification-queue",
        "% full",
        "select pg_notify('slow', n || repeat('x', 7900)) from generate_series(1, 30) as n",
        held=("listen slow", "begin", "select 1"),
    ),
    fault(
        "schema-version",
        "too new",
        "insert into txqueue.migration (number, name, serves) values (999, 'x', 999)",
    ),
    fault(
        "schema-version", "this txqueue needs", "delete from txqueue.migration where number > 10"
    ),
    fault("functions", "next_job", "drop function txqueue.next_job"),
    warning(
        "functions",
        "functions differ from those of this release: is_live_job",
        "create or replace function txqueue.is_live_job(its_job_id bigint) returns boolean"
        " language sql stable set search_path = txqueue, pg_temp as 'select true'",
    ),
    fault(
        "functions", "missing: enqueue(text,jsonb)", "drop function txqueue.enqueue(text, jsonb)"
    ),
    *(
        warning(
            "functions",
            "functions differ from those of this release: enqueue(text,jsonb)",
            f"alter function txqueue.enqueue(text, jsonb) {change}",
        )
        for change in ("security invoker", "reset search_path", "set jit = on")
    ),
    warning(
        "functions",
        "functions differ from those of this release: rotate",
        "drop function txqueue.rotate",
        "create function txqueue.rotate(point) returns int language sql as 'select 1'",
        "revoke execute on function txqueue.rotate from public",
        "grant execute on function txqueue.rotate to txqueue_worker",
    ),
    fault("functions", "live_tenants", "drop view txqueue.live_tenants"),
    fault("objects", "table seen_key", "drop table txqueue.seen_key"),
    fault(
        "objects",
        "the schema lacks column node_info.beats",
        "alter table txqueue.node_info drop beats",
    ),
    fault("objects", "index of job_ready (job_id)", "drop index txqueue.job_ready_job_id_idx"),
    fault("rows", "the schema lacks row of setting", "delete from txqueue.setting"),
    fault("rows", "row of duty: rotate", "delete from txqueue.duty"),
    fault(
        "owners",
        "objects do not belong to the schema's owner postgres: function txqueue.backlog(text)"
        " (pg_monitor)",
        "grant create on schema txqueue to pg_monitor",
        "alter function txqueue.backlog owner to pg_monitor",
        "revoke create on schema txqueue from pg_monitor",
    ),
    fault(
        "indexes",
        "job_failed",
        "update pg_index set indisvalid = false where indrelid = 'txqueue.job_failed'::regclass"
        " and not indisunique and indpred is null",
    ),
    fault(
        "history-days",
        "job_done_",
        "do $$ begin execute 'drop table txqueue.job_done_' || " + TODAY + "; end $$",
    ),
    fault(
        "sequences",
        "behind their tables: job_id",
        JOB,
        JOB,
        "alter sequence txqueue.job_id restart",
    ),
    warning(
        "dead-rows",
        "unique_job has 300 dead rows",
        "insert into txqueue.unique_job select 'x', n, n from generate_series(1, 300) as n",
        "delete from txqueue.unique_job",
        "select pg_stat_force_next_flush()",
        "select 1",
    ),
    warning(
        "roles",
        "txqueue_worksets",
        "alter role txqueue_worksets rename to renamed",
        undo=("alter role renamed rename to txqueue_worksets",),
    ),
    fault(
        "lacking-rights",
        "the role txqueue_worker lacks rights: execute on next_job()",
        "revoke execute on function txqueue.next_job from txqueue_worker",
    ),
    fault(
        "lacking-rights", "usage on the schema", "revoke usage on schema txqueue from txqueue_read"
    ),
    warning(
        "excess-rights", "insert on control", "grant insert on txqueue.control to txqueue_read"
    ),
    warning(
        "excess-rights",
        "execute on rotate()",
        "grant execute on function txqueue.rotate to txqueue_enqueue",
    ),
    warning(
        "excess-rights",
        "rolcreaterole",
        "alter role txqueue_worker createrole",
        undo=("alter role txqueue_worker nocreaterole",),
    ),
    fault("public-rights", "create on the schema", "grant create on schema txqueue to public"),
    fault(
        "public-rights", "execute on rotate()", "grant execute on function txqueue.rotate to public"
    ),
    warning(
        "channel-readers",
        "have rights to the table node_channel: pg_monitor",
        "grant select on txqueue.node_channel to pg_monitor",
    ),
    warning(
        "channel-readers",
        "have rights to the table node_channel: public",
        "grant select (channel) on txqueue.node_channel to public",
    ),
    warning(
        "long-transactions",
        "transaction open for",
        held=("begin isolation level repeatable read", "select 1"),
    ),
    warning("idle-transactions", "idle in a transaction", held=("begin", "select 1")),
    warning(
        "prepared-transactions",
        "'forgotten'",
        undo=("rollback prepared 'forgotten'",),
        held=("begin", "create table txqueue_test()", "prepare transaction 'forgotten'"),
    ),
    warning(
        "replication-slots",
        "forgotten",
        "select pg_create_physical_replication_slot('forgotten', true)",
        undo=("select pg_drop_replication_slot('forgotten')",),
    ),
    fault(
        "refused-statements",
        "refuses statements of node n2: permission denied for function complete",
        node("n2"),
        'update txqueue.node_info set report = \'{"may_claim": true, "refused":'
        ' {"sqlstate": "42501", "said": "permission denied for function complete"}}\''
        " where name = 'n2'",
    ),
    warning(
        "unable-workers",
        "keep 3 of its weight of",
        node("n2"),
        'update txqueue.node_info set report = \'{"workers": 1, "left": {"weight": 3,'
        ' "crowded": 1, "jobs": [4]}, "room": {"free": 1, "largest": 1, "capacity": 4,'
        ' "attainable": 1, "weight": 0}}\' where name = \'n2\'',
    ),
    warning("node-versions", "1 (n1); 2 (n2)", node("n2", version="2")),
    warning(
        "unforked-workers",
        "importing the application started a thread (exporter)",
        node("n2"),
        "update txqueue.node_info set report ="
        """ '{"not_forked": "started a thread (exporter)"}' where name = 'n2'""",
    ),
    fault(
        "unserved-queues",
        "serves the queue mail, which has 1 job",
        "select txqueue.enqueue('test.kind', '{}', queue => 'mail')",
    ),
    fault(
        "unknown-work-types",
        "test.other, which has 1 job",
        "select txqueue.enqueue('test.other', '{}')",
    ),
    fault(
        "unknown-work-types",
        "test.other, which has 1 job",
        TYPE.replace("kind", "other"),
        "select txqueue.enqueue('test.other', '{}')",
    ),
    fault(
        "blocked-jobs",
        "1 job does not run, such as job",
        """update txqueue.node_info set report = '{"keyless": ["sealed.kind"]}'""",
        "select txqueue.enqueue('sealed.kind', '{}')",
    ),
    warning(
        "blocked-jobs",
        "every node that could run it is draining: n1",
        "update txqueue.node_info set state = 'draining'",
    ),
    warning(
        "blocked-jobs",
        "its weight is 100, and no worker has more than 50 free: others wait behind it",
        "update txqueue.node_info set load = 0.5",
        "select txqueue.enqueue('test.kind', '{}', weight => 100, priority => 9)",
        "update txqueue.job_ready set enqueued_at = now() - interval '2 min',"
        " not_before = now() - interval '2 min'",
    ),
    warning(
        "pauses",
        "the queue default is paused for ",
        "select txqueue.pause('queue', 'default', 'ann')",
    ),
    warning(
        "held-types",
        "held: test.kind on 3c2eecad: KeyError: 'a' (14 of 20)",
        """update txqueue.node_info set report = '{"applications": ["3c2eecad"]}'""",
        "insert into txqueue.version_failure values"
        " ('3c2eecad', 'test.kind', '1', now(), now(), null, 14, 20, 'KeyError: ''a''')",
    ),
    warning(
        "overdue-schedules",
        "nightly is overdue by 1 h",
        "update txqueue.schedule set next_due = now() - interval '1 h 5 s'",
    ),
    warning("archive", "/dev/null", "update txqueue.setting set archive = '/dev/null/days'"),
    warning(
        "payload-keys",
        "TXQUEUE_PAYLOAD_KEY",
        "insert into txqueue.work_type values"
        """ ('test.secret', 'default', 4, 1, '{"encrypted": true}')""",
    ),
)

HEALTHY: Final = (TYPE, node(), JOB, SCHEDULE.format(due="1 h"))
# These checks look at the time for which a transaction is open or a slot is unused.
OF_SECONDS: Final = {
    "long-transactions",
    "idle-transactions",
    "prepared-transactions",
    "replication-slots",
}


def execute(dsn: str, statements: Sequence[str]) -> None:
    """Run statements, each in a transaction of its own."""
    if statements:
        with closing(opened(dsn, statements)):
            pass


def opened(dsn: str, statements: Sequence[str]) -> Any:
    """Run statements in a session that stays open; `{db}` is its database."""
    # The test's own commits wait for no standby, and its session may write.
    session = psycopg2.connect(
        dsn, options="-c synchronous_commit=local -c default_transaction_read_only=off"
    )
    session.autocommit = True
    with session.cursor() as cursor:
        for each in filter(None, statements):
            cursor.execute(each.replace("{db}", parse_dsn(dsn)["dbname"]))
    return session


@contextmanager
def planted(dsn: str, plant: Plant) -> Iterator[None]:
    """Plant a fault, and remove what of it belongs to the server."""
    with ExitStack() as stack:
        stack.callback(execute, dsn, plant.undo)
        if plant.held:
            stack.enter_context(closing(opened(dsn, plant.held)))
        execute(dsn, plant.sql)
        yield
