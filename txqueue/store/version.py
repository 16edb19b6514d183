"""Whether the schema in the database is the one this code needs."""

from txqueue.errors import SchemaMismatch
from txqueue.store.pool import Pool
from txqueue.store.schema import migrations

__all__ = ["check", "ensure_version", "latest_version"]


def latest_version() -> int:
    """Return the schema version that this code needs."""
    return migrations("txqueue")[-1].number


def check(version: int | None, schema: str) -> None:
    """Hold a schema's version, None if it is missing, against the one this code needs.

    Raises:
        SchemaMismatch: When they differ.
    """
    if version is None:
        raise SchemaMismatch(
            f"the schema {schema!r} is not in this database", "run: txqueue migrate"
        )
    latest = latest_version()
    if version > latest:
        raise SchemaMismatch(
            f"the schema {schema!r} has version {version}, newer than the {latest} this code knows",
            "install the newer txqueue",
        )
    if version < latest:
        raise SchemaMismatch(
            f"the schema {schema!r} has version {version}, older than the {latest} this code needs",
            "run: txqueue migrate",
        )


async def ensure_version(pool: Pool, schema: str) -> None:
    """Make sure that the database answers and its schema is the one this code needs.

    Raises:
        DatabaseUnavailable: When the database does not answer.
        SchemaMismatch: When the schema is missing, older or newer.
    """
    found = await pool.query("select to_regclass(%s) is not null", (f"{schema}.migration",))
    version = None
    if found[0][0]:
        version = (await pool.query(f"select coalesce(max(number), 0) from {schema}.migration"))[0][
            0
        ]
    check(version, schema)
