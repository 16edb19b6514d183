"""The identity of a queue: by it a client or a command detects a node of another one."""

from contextlib import closing

import psycopg2
from psycopg2.extensions import make_dsn, parse_dsn

from tests.fixtures.databases import execute_apart, fresh_database

IDENTITY = "select txqueue.identity()"


def identity(dsn: str) -> str:
    """Return the identity of the queue in a database."""
    with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
        cursor.execute(IDENTITY)
        [(found,)] = cursor.fetchall()
    return str(found)


def test_a_copy_of_a_database_is_another_queue(migrated_database: str, server_dsn: str) -> None:
    """Although its `setting.identity` is the same; a database keeps its own."""
    first = identity(migrated_database)
    with fresh_database(server_dsn, str(parse_dsn(migrated_database)["dbname"])) as copy:
        assert identity(copy) != first
    assert identity(make_dsn(migrated_database, application_name="again")) == first


def test_a_server_that_hides_its_number(migrated_database18: str) -> None:
    """The identity is made without it."""
    hide = "revoke execute on function pg_control_system() from public"
    give = "alter function {}.identity() owner to txqueue_worker"
    execute_apart(migrated_database18, hide)
    execute_apart(migrated_database18, "grant create on schema {} to txqueue_worker", "txqueue")
    execute_apart(migrated_database18, give, "txqueue")
    assert identity(migrated_database18)
