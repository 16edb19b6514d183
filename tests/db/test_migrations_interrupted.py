"""Migrations to a next release that are blocked, killed or refused, while the fleet works on."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import psycopg2
import pytest
from attrs import evolve
from psycopg2.extensions import make_dsn

from tests.db.masters import Master, master
from tests.db.test_migrations import catalog, make_alpha, run
from txqueue.errors import DatabaseUnavailable, Refused
from txqueue.store.schema import migrations as migrations_module
from txqueue.store.schema.files import (
    OLDEST,
    Migration,
    functions,
    latest_version,
    migrations,
    tables,
)
from txqueue.store.schema.migrations import migrate

pytestmark = pytest.mark.slow("schema", "txqueue/store/schema")

FIRST: Final = latest_version() + 1
# Each step of the next release, and the table for which it waits.
STEPS: Final = (
    (
        "job",
        "alter table txqueue.job add column newer text not null default 'new';"
        " create index on txqueue.job_ready (attempt)",
    ),
    ("node_info", "alter table txqueue.node_info add column newer integer"),
    (
        "setting",
        "alter table txqueue.setting add column newer jsonb; create table txqueue.newer ()",
    ),
)
# A heartbeat has one column more, a function another argument; one has gone, and one is new.
CHANGES: Final = {
    "heartbeat": ("    out owned boolean,", "    out newer integer, out owned boolean,"),
    "backlog": ("backlog(queue text)", "backlog(queue varchar)"),
}
# One of them needs a new column.
VIEWS: Final = {
    "live_jobs": "create or replace view txqueue.live_jobs as select newer from txqueue.job",
    "live_tenants": "create or replace view txqueue.live_tenants as select 'newer' as newer",
}
GONE: Final = "demand"
ADDED: Final = "create or replace function txqueue.newer() returns setof txqueue.newer" + (
    " language sql as $$ select from txqueue.newer $$"
)
KILL: Final = "; select pg_terminate_backend(pg_backend_pid())"
ALL: Final = len(STEPS)
TABLES: Final = (*(table for table, _ in STEPS), "live_jobs")


@pytest.fixture
def dsn(migrated_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of this release, of which no migration waits for long."""
    monkeypatch.setattr(migrations_module, "LONGEST_WAIT", 0.1)
    monkeypatch.setattr(migrations_module, "FIRST_WAIT", 0.1)
    monkeypatch.setattr(migrations_module, "PAUSES", 0.1)
    monkeypatch.setattr(migrations_module, "PATIENCE", 0.2)
    return migrated_database


@contextmanager
def next_release(kills: int | None = None) -> Iterator[None]:
    """Have the code be that of the next release, and a place of its migration be fatal."""
    steps = [
        Migration(FIRST + place, "newer", sql + (KILL if place == kills else ""), 7)
        for place, (_, sql) in enumerate(STEPS)
    ]
    kept = ((name, sql) for name, sql in functions("txqueue") if name not in {GONE, *VIEWS})
    made = [*map(changed, kept), *VIEWS.items(), ("newer", ADDED + (KILL if kills == ALL else ""))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations_module, "migrations", lambda _: [*migrations("txqueue"), *steps])
        patch.setattr(migrations_module, "functions", lambda _: made)
        patch.setattr(migrations_module, "latest_version", lambda: FIRST + ALL - 1)
        yield


def changed(named: tuple[str, str]) -> tuple[str, str]:
    """Return a function's definition in the next release."""
    name, sql = named
    before, after = CHANGES.get(name, ("", ""))
    assert before in sql
    return name, sql.replace(before, after) if before else sql


def works(session: Master) -> None:
    """Do what nodes and clients of this release do all the time, and start another node."""
    [first, second] = session.enqueue({"group": "g"}, {})
    single = session.value("select txqueue.enqueue('test.kind', '{}')")
    assert session.beats()
    done = session.claim()
    assert sorted(job_id for chunk in done for job_id in chunk.ids) == [first, second, single]
    for chunk in done:
        assert session.complete(chunk) == len(chunk.ids)
    assert session.register("another")[0]


def blocked(dsn: str, table: str) -> None:
    """Migrate while a session reads a table in a transaction that it leaves open."""
    with closing(psycopg2.connect(dsn, application_name="reader")) as reader:
        reader.cursor().execute(f"select from txqueue.{table} limit 1")
        with next_release(), pytest.raises(Refused, match="by reader of"):
            migrate(dsn)


def version(session: Master) -> int:
    """The version of the schema."""
    return int(session.value("select max(number) from txqueue.migration"))


def test_the_fleet_works_wherever_a_migration_ends(dsn: str) -> None:
    """Blocked or killed at any step; the next migration takes up where that one has ended."""
    with master(dsn) as session:
        for place in range(ALL + 1):
            blocked(dsn, TABLES[place])
            # The functions are tried before the first step.
            assert version(session) == FIRST - 1 + min(place, ALL - 1)
            works(session)
            with next_release(kills=place), pytest.raises(DatabaseUnavailable):
                migrate(dsn)
            assert version(session) == FIRST - 1 + place
            works(session)
        blocked(dsn, TABLES[ALL])
        works(session)
        with next_release():
            assert migrate(dsn).after == FIRST + ALL - 1
        works(session)
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("select newer, owned from txqueue.heartbeat(1, 0)")
        cursor.execute("select newer from txqueue.live_jobs, txqueue.live_tenants as its (more)")
        cursor.execute("select to_regproc('txqueue.demand'), to_regproc('txqueue.newer') is null")
        assert cursor.fetchall() == [(None, False)]


def test_the_tables_of_a_new_schema_are_made_as_a_whole(database: str, dsn: str) -> None:
    """A migration that is killed at the end of this step leaves none; the next one makes all."""
    killed = evolve(tables("txqueue"), sql=tables("txqueue").sql + KILL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations_module, "tables", lambda _: killed)
        with pytest.raises(DatabaseUnavailable):
            migrate(database)
    assert migrate(database).before == 0
    assert catalog(database) == catalog(dsn)


def test_a_step_from_the_alpha_is_done_as_a_whole(dsn: str) -> None:
    """Blocked by a writer of each table, refused or killed, it leaves all as it was."""
    new = catalog(dsn)
    make_alpha(dsn, OLDEST)
    alpha = catalog(dsn)
    for table in ("setting", "job_step", "job_signal", "schedule", "job", "job_done"):
        with closing(psycopg2.connect(dsn, application_name="writer")) as writer:
            writer.cursor().execute(f"lock table txqueue.{table} in row exclusive mode")
            with pytest.raises(Refused, match="by writer of"):
                migrate(dsn)
        assert catalog(dsn) == alpha
    run(
        dsn,
        "create function txqueue.newer() returns int return 1; create view now as"
        " select txqueue.newer()",
    )
    with pytest.raises(Refused, match=r"removes the function newer\(\), and others need it"):
        migrate(dsn)
    run(dsn, "drop view now; drop function txqueue.newer")
    [step] = migrations("txqueue")
    with pytest.MonkeyPatch.context() as patch:
        killed = evolve(step, sql=step.sql + KILL)
        patch.setattr(migrations_module, "migrations", lambda _: [killed])
        with pytest.raises(DatabaseUnavailable):
            migrate(dsn)
    assert catalog(dsn) == alpha
    assert migrate(dsn).before == OLDEST
    assert catalog(dsn) == new


USES: Final = {
    "a default of a function that gets other arguments": (
        "create table orders (waits bigint default txqueue.backlog('default'))"
    ),
    "a view of a function that is removed": "create view now as select * from txqueue.demand('a')",
    "a view of a view with other columns": "create view now as select from txqueue.live_tenants",
    "a function of a function with other results": (
        "create function beat() returns boolean begin atomic select owned"
        " from txqueue.heartbeat(1, 0.0); end"
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_what_needs_a_former_function_is_found_before_the_first_step(dsn: str, use: str) -> None:
    """Nothing has changed then, and the fleet works; without it, the migration goes through."""
    run(dsn, use)
    before = catalog(dsn)
    with next_release(), pytest.raises(Refused, match=r"replaces or removes .* others need"):
        migrate(dsn)
    assert before == catalog(dsn)
    with master(dsn) as session:
        works(session)
    run(dsn, "drop table if exists orders; drop view if exists now; drop function if exists beat")
    with next_release():
        assert migrate(dsn).after == FIRST + ALL - 1


def test_what_is_found_late_stops_no_fleet(dsn: str) -> None:
    """A use of what cannot be tried before the first step, as it needs a new column."""
    run(dsn, "create view now as select jobs from txqueue.live_jobs")
    with next_release(), pytest.raises(Refused, match="others need it: view public"):
        migrate(dsn)
    with master(dsn) as session:
        assert version(session) == FIRST + ALL - 1
        works(session)


def test_a_use_of_what_stays_is_no_obstacle(dsn: str) -> None:
    """Neither of a function nor of a view."""
    run(dsn, "create view now as select txqueue.error_kind('x'), queue from txqueue.recent_done")
    with next_release():
        assert migrate(dsn).after == FIRST + ALL - 1


def test_the_session_is_named_to_an_owner_that_sees_no_other_sessions(
    database: str, dsn: str
) -> None:
    """Any role may see the number and the user of a session, and what it has locked."""
    run(database, "drop role if exists txqueue_applicant; create role txqueue_applicant login")
    run(database, "create schema txqueue authorization txqueue_applicant")
    own = make_dsn(database, user="txqueue_applicant")
    migrate(own)
    with closing(psycopg2.connect(database, application_name="reader")) as reader:
        reader.cursor().execute("select from txqueue.node_status")
        with pytest.raises(Refused, match=r"by reader of postgres \(pid \d+\)"):
            migrate(own)
    run(database, "drop schema txqueue cascade; drop role txqueue_applicant")
