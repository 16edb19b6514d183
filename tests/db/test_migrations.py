"""Creating and upgrading the schema, by however many and wherever."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extensions import make_dsn, parse_dsn

from tests.db.masters import Master
from tests.db.snapshot import objects
from tests.fixtures.databases import drop_database, execute_apart
from txqueue import WorkQueue
from txqueue.errors import ConfigurationError, DatabaseUnavailable, Refused, SchemaMismatch
from txqueue.policy.findings.catalogue import diagnose
from txqueue.policy.findings.finding import Severity
from txqueue.store.reads.examination.facts import examine
from txqueue.store.schema import migrations as migrations_module
from txqueue.store.schema.files import OLDEST, latest_version, migrations, needed_objects
from txqueue.store.schema.function_replacement import keeping_rights
from txqueue.store.schema.migrations import check_database, migrate, schema_sql

CATALOG = """
    select 'column', relname || '.' || attname,
           concat_ws(' ', row_number() over (partition by attrelid order by attnum),
                     format_type(atttypid, atttypmod), attcollation::regcollation, attnotnull,
                     attidentity, attgenerated, pg_get_expr(adbin, adrelid),
                     col_description(attrelid, attnum))
      from pg_class join pg_attribute on attrelid = pg_class.oid
      left join pg_attrdef on adrelid = pg_class.oid and adnum = attnum
     where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p', 'S', 'c') and attnum > 0
       and not attisdropped
    union all
    select 'relation', relname,
           concat_ws(' ', relkind, relpersistence, relreplident, reloptions,
                     obj_description(oid, 'pg_class'))
      from pg_class where relnamespace = 'txqueue'::regnamespace
    union all
    select 'type', typname,
           concat_ws(' ', obj_description(oid, 'pg_type'),
                     (select array_agg(enumlabel order by enumsortorder)
                        from pg_enum where enumtypid = pg_type.oid))
      from pg_type where typnamespace = 'txqueue'::regnamespace
    union all
    select 'trigger', tgrelid::regclass || '.' || tgname, pg_get_triggerdef(pg_trigger.oid)
      from pg_trigger join pg_class on pg_class.oid = tgrelid
     where relnamespace = 'txqueue'::regnamespace
    union all
    select 'index', indexname, indexdef from pg_indexes where schemaname = 'txqueue'
    union all
    select 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
      from pg_constraint where connamespace = 'txqueue'::regnamespace
    union all
    select 'view', viewname, definition from pg_views where schemaname = 'txqueue'
    union all
    select 'function', proname, pg_get_functiondef(oid) || coalesce(proacl::text, '')
      from pg_proc where pronamespace = 'txqueue'::regnamespace
    union all
    select 'partition', inhrelid::regclass::text, pg_get_expr(relpartbound, pg_class.oid)
      from pg_inherits join pg_class on pg_class.oid = inhrelid
     where relnamespace = 'txqueue'::regnamespace
    union all
    select 'privilege', relname, relacl::text
      from pg_class where relnamespace = 'txqueue'::regnamespace
    union all
    select 'version', max(number)::text, max(coalesce(serves, number))::text from txqueue.migration
    order by 1, 2, 3
"""


# What each version of the alpha brought that its database did not have before, the latest first.
BROUGHT = {
    37: "alter table job_step drop column annotation; alter table work_type drop column schema;"
    " alter table action drop column former;"
    " drop table version_failure cascade; alter table failed_attempt drop column work_type,"
    " drop column application, drop column fingerprint",
    36: "alter table job_step drop column child_state",
    35: "drop function forget_deleted cascade; comment on column job.steps is null",
    34: "alter table schedule drop column put_off",
    33: "comment on column control.backlog is null",
    32: "alter table job_signal drop column taken_by",
    31: "alter table job_step drop column child_type",
    30: "alter table setting alter column keys_required set default true",
}


DAY = re.compile(r"20\d\d-?\d\d-?\d\d")


def catalog(dsn: str) -> list[list[str]]:
    """All definitions in the schema; days by their order, as midnight may pass between two."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(CATALOG)
        rows = [[str(text) for text in row] for row in cursor.fetchall()]
    found = {day.replace("-", "") for row in rows for text in row for day in DAY.findall(text)}
    places = {day: f"day {place}" for place, day in enumerate(sorted(found))}

    def named(text: str) -> str:
        return DAY.sub(lambda match: places[match[0].replace("-", "")], text)

    return sorted([named(text) for text in row] for row in rows)


def run(dsn: str, sql: str) -> None:
    """Run SQL in one transaction."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(sql)


def make_alpha(dsn: str, version: int) -> None:
    """Give a new database the tables of a version of the alpha."""
    undone = [sql for number, sql in BROUGHT.items() if number > version]
    run(
        dsn,
        f"set search_path = txqueue; {';'.join(undone or ['select'])}; delete from migration;"
        " insert into migration (number, name, serves)"
        f" select number, 'alpha', 7 from generate_series(1, {version}) as number",
    )


def test_twenty_migrators_at_once_leave_one_schema(
    database18: str, migrated_database18: str
) -> None:
    """Each step is applied by one of them; all of them end well, and the schema is as ever."""
    with ThreadPoolExecutor(20) as threads:
        reports = list(threads.map(lambda _: migrate(database18), range(20)))
    applied = sorted(name for report in reports for name in report.applied)
    assert applied == [f"{latest_version():04}_tables"]
    assert {report.after for report in reports} == {latest_version()}
    assert catalog(migrated_database18) == catalog(database18)


def test_a_second_migration_changes_nothing(migrated_database: str) -> None:
    """It reports no step, and the schema is as before."""
    before = catalog(migrated_database)
    report = migrate(migrated_database)
    assert (report.before, report.after, report.applied) == (report.after, report.after, [])
    assert before == catalog(migrated_database)


def test_functions_of_another_signature_do_not_stand_in_the_way(migrated_database: str) -> None:
    """A version that gives a function one more argument replaces the former one."""
    before = catalog(migrated_database)
    names = {name for kind, name, _ in before if kind == "function"}
    for name in sorted(names):
        run(migrated_database, f"create function txqueue.{name}(a point) returns int return 1")
    migrate(migrated_database)
    assert before == catalog(migrated_database)


def test_a_migration_keeps_the_jobs(node: Master, dsn: str) -> None:
    """Functions are replaced under running nodes, rows stay."""
    ids = node.enqueue({}, {})
    migrate(dsn)
    assert ids == node.claimed_ids()


def test_the_snapshot_is_up_to_date(migrated_database: str) -> None:
    """After a change of the schema, run: python -m tests.db.snapshot."""
    assert objects(migrated_database) == needed_objects()


def test_the_script_makes_what_a_migration_makes(database: str, migrated_database: str) -> None:
    """What `txqueue migrate --sql` prints gives the same schema, comments among it."""
    run(database, schema_sql())
    assert catalog(migrated_database) == catalog(database)
    check_database(database)


@pytest.mark.parametrize("version", [OLDEST, 33, 37])
def test_a_database_of_the_alpha_comes_to_the_same(migrated_database: str, version: int) -> None:
    """From each version that it may have, by one step, which does no harm a second time."""
    before = catalog(migrated_database)
    make_alpha(migrated_database, version)
    assert catalog(migrated_database) != before
    report = migrate(migrated_database)
    assert (report.before, report.after, report.applied) == (version, 38, ["0038_alpha"])
    assert catalog(migrated_database) == before
    run(migrated_database, "delete from txqueue.migration where number > 37")
    assert migrate(migrated_database).applied == ["0038_alpha"]
    assert catalog(migrated_database) == before


@pytest.mark.parametrize("version", [29, 30])
def test_a_choice_of_keys_stays_unless_none_was_made(migrated_database: str, version: int) -> None:
    """Up to version 29 keys were required unless an owner had said otherwise."""
    make_alpha(migrated_database, version)
    run(migrated_database, "update txqueue.setting set keys_required = true")
    migrate(migrated_database)
    with closing(psycopg2.connect(migrated_database)) as connection, connection.cursor() as cursor:
        cursor.execute("select keys_required from txqueue.setting")
        assert cursor.fetchall() == [(version == 30,)]


def test_a_backlog_of_the_alpha_gets_its_index(migrated_database: str) -> None:
    """As if set_limit() had set it."""
    make_alpha(migrated_database, 32)
    run(
        migrated_database,
        "insert into txqueue.control (kind, key, backlog) values ('queue', 'q', 9)",
    )
    migrate(migrated_database)
    run(migrated_database, "drop index txqueue.job_waiting_queue_idx")


def test_an_older_database_is_refused(migrated_database: str) -> None:
    """With what to do; nothing changes."""
    make_alpha(migrated_database, OLDEST - 1)
    before = catalog(migrated_database)
    with pytest.raises(SchemaMismatch, match="has version 28, older than the 29 from") as refused:
        migrate(migrated_database)
    assert "migrate with the last alpha first" in refused.value.remedy
    assert before == catalog(migrated_database)


def test_a_function_of_an_older_version_is_dropped(migrated_database: str) -> None:
    """What no file defines any more is not left behind."""
    run(migrated_database, "create function txqueue.former(int) returns int return 1")
    migrate(migrated_database)
    assert "former" not in {name for kind, name, _ in catalog(migrated_database)}


def test_nothing_of_a_newer_schema_is_touched(migrated_database: str) -> None:
    """An old txqueue must not put its functions over a newer one's."""
    run(migrated_database, "insert into txqueue.migration values (9999, 'from the future')")
    before = catalog(migrated_database)
    with pytest.raises(SchemaMismatch, match="has version 9999, newer than"):
        migrate(migrated_database)
    assert before == catalog(migrated_database)


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        (
            "update txqueue.migration set number = number + 9998, serves = null",
            "newer than",
            "install the newer txqueue",
        ),
        (
            "insert into txqueue.migration (number, name, serves)"
            " values (9998, 'one', 5), (9999, 'two', 9998), (10000, 'three', 5)",
            "serves none older than 9998",
            "install the newer txqueue",
        ),
        ("delete from txqueue.migration", "has version 0, older than", "run: txqueue migrate"),
        ("drop schema txqueue cascade", "is not in this database", "run: txqueue migrate"),
    ],
)
async def test_a_client_refuses_another_version(
    migrated_database: str, change: str, what: str, remedy: str
) -> None:
    """At once, rather than at some call."""
    run(migrated_database, change)
    with pytest.raises(SchemaMismatch, match=what) as caught:
        await WorkQueue.connect(migrated_database)
    assert remedy == caught.value.remedy
    with pytest.raises(SchemaMismatch, match=what):
        check_database(migrated_database)


async def test_a_newer_schema_that_serves_this_code_is_used(migrated_database: str) -> None:
    """So nodes and applications of the previous release work and start during an upgrade."""
    run(
        migrated_database,
        "insert into txqueue.migration (number, name, serves)"
        f" values (9998, 'one', {latest_version()}), (9999, 'two', {latest_version()})",
    )
    check_database(migrated_database)
    queue = await WorkQueue.connect(migrated_database)
    await queue.close()
    with pytest.raises(SchemaMismatch, match="has version 9999, newer than"):
        migrate(migrated_database)


def test_a_migration_says_which_code_it_serves(migrated_database: str) -> None:
    """In its first line; a new database serves what one serves that has gone through all."""
    with closing(psycopg2.connect(migrated_database)) as connection, connection.cursor() as cursor:
        cursor.execute("select number, name, serves from txqueue.migration")
        serves = max(each.serves or each.number for each in migrations("txqueue"))
        assert cursor.fetchall() == [(latest_version(), "tables", serves)]


def test_a_database_that_does_not_answer_is_reported(tmp_path: object) -> None:
    """In one line with a remedy."""
    with pytest.raises(DatabaseUnavailable, match="does not answer: ") as caught:
        migrate(f"host={tmp_path}")
    assert "--dsn" in caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "Upper", "two words", 'x"; drop', "pg_mine", "x" * 42, "1st"])
def test_an_unsafe_name_is_refused(name: str) -> None:
    """The name stands in SQL, so it must be a plain identifier."""
    with pytest.raises(ConfigurationError, match="is not a plain identifier"):
        schema_sql(name)


def test_schemas_side_by_side_share_nothing(node: Master, dsn: str) -> None:
    """Each has its jobs, its nodes, its sleep flag and its channel."""
    assert migrate(dsn, "second").applied
    node.cursor.execute("listen second")
    node.value("select second.enqueue('t', '{}')")
    node.claim()
    node.enqueue({})
    assert {"ready": 1} == node.states()
    assert 1 == node.value("select count(*) from second.job")
    assert 1 == node.value("select count(*) from txqueue.node_info")
    assert 0 == node.value("select count(*) from second.node_info")
    node.connection.poll()
    assert [] == node.connection.notifies
    before = catalog(dsn)
    node.cursor.execute("drop schema second cascade")
    assert before == catalog(dsn)


def test_history_lies_ready_from_the_first_moment(node: Master) -> None:
    """A job can be completed before any node has done its maintenance."""
    node.enqueue({})
    (chunk,) = node.claim()
    assert 1 == node.complete(chunk)


def test_a_migration_keeps_grants_and_views_of_others(
    migrated_database: str, node: Master, dsn: str
) -> None:
    """What a monitoring tool was granted, and a view that it made of one of txqueue's."""
    node.cursor.execute("drop role if exists txqueue_monitor")
    node.cursor.execute("create role txqueue_monitor")
    for sql in (
        "grant select on txqueue.node_status, txqueue.live_jobs to txqueue_monitor",
        "grant execute on function txqueue.backlog to txqueue_monitor",
        "create view monitor as select name, jobs from txqueue.node_status",
    ):
        run(migrated_database, sql)
    before = catalog(migrated_database)
    migrate(migrated_database)
    assert before == catalog(migrated_database)
    run(migrated_database, "select * from monitor")
    run(migrated_database, "drop view monitor; drop owned by txqueue_monitor")
    node.cursor.execute("drop role txqueue_monitor")


# As a release before had it: one function for all calls.
FORMER = """
    drop function txqueue.enqueue(text, jsonb);
    do $$ declare its oid := 'txqueue.enqueue'::regproc; made text := pg_get_functiondef(its); begin
        execute 'drop function ' || its::regprocedure;
        execute replace(made, 'work_type character varying', 'work_type text');
    end $$;
    revoke all on function txqueue.enqueue from public;
    grant execute on function txqueue.enqueue to txqueue_enqueue, txqueue_worker;
"""


@pytest.fixture
def application(migrated_database: str) -> Iterator[str]:
    """A role of the user's own, whose name must be quoted."""
    name = '"txqueue old-app 100%"'
    run(migrated_database, f"drop role if exists {name}; create role {name}")
    yield name
    run(migrated_database, f"drop owned by {name}; drop role {name}")


RIGHTS = """
    select oid::regprocedure::text, privilege_type, is_grantable
      from pg_proc, aclexplode(proacl) where grantee = %s::regrole
    union all
    select oid::regclass::text, privilege_type, is_grantable
      from pg_class, aclexplode(relacl) where grantee = %s::regrole
    order by 1, 2
"""


def test_what_takes_the_place_of_a_function_has_its_grants(
    migrated_database: str, application: str
) -> None:
    """Those of the user's roles; txqueue's own have what this release grants them."""
    before = catalog(migrated_database)
    for sql in (
        FORMER,
        "drop view txqueue.recent_done; create view txqueue.recent_done as select 1",
        "drop function txqueue.find_job; create function txqueue.find_job(its_job_id bigint)"
        " returns integer return 1",
        "create function txqueue.rotate(point) returns int return 1",
        f"""grant usage on schema txqueue to {application};
            grant execute on function txqueue.enqueue to {application};
            grant execute on function txqueue.find_job to {application} with grant option;
            grant execute on function txqueue.rotate(point) to txqueue_enqueue;
            grant select on txqueue.recent_done to {application};""",
    ):
        run(migrated_database, sql)
    migrate(migrated_database)
    with closing(psycopg2.connect(migrated_database)) as connection, connection.cursor() as cursor:
        cursor.execute(RIGHTS, (application, application))
        rights = [(name.partition("(")[0], *rest) for name, *rest in cursor.fetchall()]
    assert rights == [
        ("txqueue.enqueue", "EXECUTE", False),
        ("txqueue.enqueue", "EXECUTE", False),
        ("txqueue.find_job", "EXECUTE", True),
        ("txqueue.recent_done", "SELECT", False),
    ]
    run(migrated_database, f"drop owned by {application}")
    assert before == catalog(migrated_database)


@pytest.mark.parametrize(
    ("granted", "dropped", "expected"),
    [
        # With the same arguments.
        ("(text)", ["(text)", "(text,jsonb)"], {"(text)"}),
        ("(text,jsonb)", ["(text)", "(text,jsonb)"], {"(text,jsonb)"}),
        # With a further one.
        ("(jsonb)", ["(jsonb)", "(text)", "(text,jsonb)"], {"(jsonb,integer)"}),
        # With other types, beside functions that stay as they are.
        ("(point)", ["(point)"], {"(jsonb,integer)"}),
        ("(point)", ["(point)", "(text)"], {"(text)", "(jsonb,integer)"}),
        # It stays.
        ("(text)", ["(point)"], {"(text)"}),
    ],
)
def test_grants_go_to_the_successor_of_a_signature(
    migrated_database: str,
    application: str,
    granted: str,
    dropped: list[str],
    expected: set[str],
) -> None:
    """Not to all functions of its name."""
    with closing(psycopg2.connect(migrated_database)) as connection, connection.cursor() as cursor:
        cursor.execute("set search_path = txqueue")
        for arguments in {granted, *dropped, "(text)", "(text,jsonb)"}:
            cursor.execute(f"create function tried{arguments} returns int return 1")
        cursor.execute(f"grant execute on function tried{granted} to {application}")
        with keeping_rights(cursor, []):
            for arguments in dropped:
                cursor.execute(f"drop function tried{arguments}")
            for arguments in ("(text)", "(text,jsonb)", "(jsonb,integer)"):
                cursor.execute(f"create or replace function tried{arguments} returns int return 2")
        cursor.execute(RIGHTS, (application, application))
        assert {name.removeprefix("tried") for name, *_ in cursor.fetchall()} == expected


def test_what_needs_a_former_function_is_named(migrated_database: str) -> None:
    """A default and a view of the user's; nothing changes, and nothing is to be dropped by it."""
    run(migrated_database, FORMER)
    run(
        migrated_database,
        "create table orders (job bigint default txqueue.enqueue('shop.Ship', '{}'));"
        " create view shipped as select txqueue.enqueue('shop.Ship', '{}') as job",
    )
    before = catalog(migrated_database)
    with pytest.raises(Refused) as refused:
        migrate(migrated_database)
    assert "removes the function enqueue(text,jsonb,text," in refused.value.what
    for user in ("column job of table public.orders", "view public.shipped"):
        assert user in refused.value.what
    assert "migrate, and put it back" in refused.value.remedy
    assert "cascade" not in str(refused.value).lower()
    assert before == catalog(migrated_database)


def test_a_function_beside_others_of_its_name_is_recreated(migrated_database: str) -> None:
    """Its arguments had other names, which cannot be replaced in place."""
    before = catalog(migrated_database)
    run(
        migrated_database,
        "drop function txqueue.enqueue(text, jsonb); create function"
        " txqueue.enqueue(its_type text, its_payload jsonb) returns bigint return 1",
    )
    migrate(migrated_database)
    assert before == catalog(migrated_database)


def test_a_function_with_new_columns_is_recreated(migrated_database: str) -> None:
    """A view or a function of an older version, which cannot be replaced in place."""
    before = catalog(migrated_database)
    run(
        migrated_database,
        "drop view txqueue.recent_done; create view txqueue.recent_done as select 1",
    )
    run(
        migrated_database,
        "drop function txqueue.find_job; create function txqueue.find_job(its_job_id bigint)"
        " returns integer return 1",
    )
    migrate(migrated_database)
    assert [row for row in before if row[0] == "function"] == [
        row for row in catalog(migrated_database) if row[0] == "function"
    ]


def test_existing_roles_of_another_database_are_reported(migrated_database: str) -> None:
    """As the schema is made, not again: their members have the same rights in both databases."""
    assert migrate(migrated_database).shared == []
    run(migrated_database, "drop schema txqueue cascade")
    roles = [f"txqueue_{purpose}" for purpose in ("enqueue", "read", "worker", "worksets")]
    assert migrate(migrated_database).shared == roles


def test_a_schema_of_another_owner_is_left_alone(database: str) -> None:
    """Neither its owner's tables nor another role's schema."""
    run(database, "create schema txqueue; create table txqueue.job (mine int)")
    with pytest.raises(Refused, match="has tables that are not txqueue's"):
        migrate(database)
    run(database, "drop table txqueue.job; drop role if exists txqueue_applicant")
    run(database, "create role txqueue_applicant login")
    with pytest.raises(Refused, match="belongs to postgres"):
        migrate(make_dsn(database, user="txqueue_applicant"))
    run(database, "drop role txqueue_applicant")


def test_a_role_that_may_not_create_migrates_what_it_owns(database: str) -> None:
    """An administrator has made the schema for it."""
    run(database, "drop role if exists txqueue_applicant")
    run(database, "create role txqueue_applicant login")
    dsn = make_dsn(database, user="txqueue_applicant")
    with pytest.raises(Refused, match="permission denied for database"):
        migrate(dsn)
    run(database, "create schema txqueue authorization txqueue_applicant")
    assert migrate(dsn).after == latest_version()
    assert migrate(dsn).applied == []
    run(database, "drop schema txqueue cascade; drop role txqueue_applicant")


LIMITS = {
    "statement_timeout": "20ms",
    "transaction_timeout": "100ms",
    "idle_in_transaction_session_timeout": "100ms",
    "idle_session_timeout": "100ms",
    "lock_timeout": "1ms",
}
READINGS = {
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "client_encoding": "SQL_ASCII",
    "DateStyle": "German",
    "TimeZone": "Asia/Kolkata",
    "quote_all_identifiers": "on",
    "default_transaction_isolation": "serializable",
    "check_function_bodies": "on",
    "plpgsql.extra_errors": "all",
}


@pytest.mark.parametrize("settings", [LIMITS, READINGS], ids=["limits", "readings"])
def test_a_migration_does_not_depend_on_settings_of_the_database(
    dsn18: str, database18: str, migrated_database18: str, settings: dict[str, str]
) -> None:
    """Neither on limits of time, nor on what changes how statements are read."""
    name = parse_dsn(database18)["dbname"]
    for setting, value in settings.items():
        run(dsn18, f"alter database {name} set {setting} = '{value}'")
    assert migrate(database18).after == latest_version()
    run(dsn18, f"alter database {name} reset all")
    assert catalog(database18) == catalog(migrated_database18)


def test_a_database_of_another_encoding_is_refused(dsn18: str) -> None:
    """Before anything is written: it could not store every payload."""
    name = f"test_{uuid4().hex[:12]}"
    execute_apart(dsn18, "create database {} template template0 encoding 'LATIN1'", name)
    try:
        latin = make_dsn(dsn18, dbname=name)
        with pytest.raises(Refused, match="encoding LATIN1, which cannot store every payload"):
            migrate(latin)
        with closing(psycopg2.connect(latin)) as connection, connection.cursor() as cursor:
            cursor.execute("select to_regnamespace('txqueue') is null")
            assert cursor.fetchone() == (True,)
        results = {each.check: each for each in diagnose(examine(latin, "txqueue"))}
        [found] = results["encoding"].findings
        assert (found.severity, "LATIN1" in found.what) == (Severity.FAULT, True)
    finally:
        drop_database(dsn18, name)


BY_READER = r"were locked for more than 1 s, by reader of postgres \(pid \d+\);"


def test_a_migration_names_the_session_that_locks_a_table(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up, and meanwhile lets others pass again and again."""
    monkeypatch.setattr(migrations_module, "PATIENCE", 1.0)
    with closing(psycopg2.connect(migrated_database, application_name="reader")) as reader:
        reader.cursor().execute("select from txqueue.node_status; select pg_sleep(1.1)")
        with pytest.raises(Refused, match=BY_READER):
            migrate(migrated_database)


def test_a_migration_waits_for_all_locks_together(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bound holds for what it reads before its steps, and for each of them."""
    monkeypatch.setattr(migrations_module, "PATIENCE", 1.0)
    monkeypatch.setattr(migrations_module, "LONGEST_WAIT", 0.1)
    monkeypatch.setattr(migrations_module, "FIRST_WAIT", 0.1)
    monkeypatch.setattr(migrations_module, "PAUSES", 2.6)
    pauses: list[str] = []

    def pause(_: float) -> None:
        """Have another table locked after two pauses, which are all the time that passes."""
        pauses.append("pause")
        if len(pauses) == 2:
            holder.rollback()
            holder.cursor().execute("lock table txqueue.setting in access exclusive mode")

    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=pause)
    monkeypatch.setattr(migrations_module, "time", clock)
    with closing(psycopg2.connect(migrated_database, application_name="holder")) as holder:
        holder.cursor().execute("lock table txqueue.migration in access exclusive mode")
        with pytest.raises(Refused, match="were locked for more than 1 s"):
            migrate(migrated_database)
    assert len(pauses) == 4


def test_a_migration_lets_others_pass_for_most_of_the_time(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait behind it for a fifth of the time at most, and at first only for an instant."""
    asked: list[float] = []
    pauses: list[float] = []

    def step(wait: float) -> None:
        asked.append(wait)
        raise psycopg2.errors.LockNotAvailable

    monkeypatch.setattr(time, "sleep", pauses.append)
    with (
        closing(psycopg2.connect(migrated_database)) as connection,
        connection.cursor() as cursor,
        pytest.raises(Refused, match="were locked for more than 60 s"),
    ):
        migrations_module.Patience(cursor, "txqueue").run(step)
    assert asked[:5] == [0.2, 0.4, 0.8, 1.6, 2.0]
    assert asked[-1] == 2.0
    assert pauses == [4 * wait for wait in asked[:-1]]


def test_a_migration_names_another_that_takes_too_long(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for it once, not as for a table."""
    monkeypatch.setattr(migrations_module, "OTHERS_PATIENCE", 0.1)
    with closing(psycopg2.connect(migrated_database)) as holder:
        holder.cursor().execute("lock table txqueue.migrating in exclusive mode")
        with pytest.raises(Refused, match="another session has been migrating the schema txqueue"):
            migrate(migrated_database)
