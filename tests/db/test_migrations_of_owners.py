"""Who owns what a migration makes, whichever role migrates."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from tests.db.masters import master
from tests.db.test_migrations import catalog, run
from tests.db.test_migrations_interrupted import ALL, next_release, works
from txqueue.errors import Refused
from txqueue.store.schema.function_replacement import STRAYS
from txqueue.store.schema.migrations import migrate

pytestmark = pytest.mark.slow("schema", "txqueue/store/schema")


@pytest.fixture
def owned(database: str) -> Iterator[str]:
    """A database with a schema of the role applicant, and a role deputy."""
    run(
        database,
        "drop role if exists txqueue_applicant, txqueue_deputy;"
        " create role txqueue_applicant login; create role txqueue_deputy login;"
        " create schema txqueue authorization txqueue_applicant",
    )
    yield database
    run(database, "drop schema txqueue cascade; drop role txqueue_applicant, txqueue_deputy")


def strays(dsn: str) -> list[str]:
    """The objects in the schema that do not belong to its owner."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(STRAYS, ("txqueue",))
        return [name for _, name, *_ in cursor.fetchall()]


@pytest.mark.parametrize("membership", ["", "inherit", "noinherit"])
def test_the_schema_s_owner_owns_what_another_role_migrates(owned: str, membership: str) -> None:
    """A superuser, or a member of the owner's role; the owner can then migrate and work."""
    other = owned
    if membership:
        run(owned, f"alter role txqueue_deputy {membership}")
        run(owned, "grant txqueue_applicant to txqueue_deputy")
        other = make_dsn(owned, user="txqueue_deputy")
    own = make_dsn(owned, user="txqueue_applicant")
    migrate(other)
    assert strays(owned) == []
    run(own, "drop function txqueue.backlog")
    with next_release():
        assert len(migrate(other).applied) == ALL
        assert strays(owned) == []
        assert migrate(own).applied == []
    with master(own) as session:
        works(session)


def test_what_belongs_to_others_goes_to_the_owner(owned: str) -> None:
    """By a migration of a role that may do so; the owner's own says who that is."""
    own = make_dsn(owned, user="txqueue_applicant")
    migrate(own)
    for change in (
        "alter function txqueue.backlog owner to txqueue_deputy",
        "alter table txqueue.request owner to postgres",
        "alter view txqueue.live_jobs owner to postgres",
        "alter sequence txqueue.asleep owner to postgres",
        "alter type txqueue.job_state owner to postgres",
        "alter type txqueue.claim_turn owner to postgres",
    ):
        run(owned, change)
    assert len(strays(owned)) == 6
    before = catalog(owned)
    with pytest.raises(Refused, match="6 objects in the schema txqueue do not belong to its") as no:
        migrate(own)
    assert "the function txqueue.backlog(text) belongs to txqueue_deputy" in no.value.what
    assert "migrate once as a superuser" in no.value.remedy
    assert catalog(owned) == before
    migrate(owned)
    assert strays(owned) == []
    migrate(own)
