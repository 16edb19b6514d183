"""The identity of a queue: by it a client or a command detects a node of another one."""

from contextlib import closing

import psycopg2
from psycopg2.extensions import make_dsn, parse_dsn
from psycopg2.extras import RealDictCursor

from tests.fixtures.databases import execute_apart, fresh_database
from txqueue.store.schema.files import IDENTITY as PLACE
from txqueue.store.schema.files import QueueIdentity

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


def place(dsn: str, role: str | None = None) -> str:
    """Return what people read as the place of the queue in a database, as a role sees it."""
    with (
        closing(psycopg2.connect(dsn)) as session,
        session.cursor(cursor_factory=RealDictCursor) as cursor,
    ):
        if role is not None:
            cursor.execute(f"set role {role}")
        cursor.execute(PLACE.format(schema="txqueue"))
        [row] = cursor.fetchall()
    return QueueIdentity.of_row(row, "txqueue").place


def test_the_place_of_a_queue_has_the_folder_and_port_of_its_socket(migrated_database: str) -> None:
    """Servers of one host differ in nothing else; a role that may not read the folder sees none."""
    where = parse_dsn(migrated_database)
    at, port = f"the database {where['dbname']} at a unix socket", where.get("port", "5432")
    assert place(migrated_database) == f"{at} in {where['host']}, port {port}, schema txqueue"
    assert place(migrated_database, "txqueue_worker") == f"{at}, port {port}, schema txqueue"
