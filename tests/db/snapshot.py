"""The picture of the schema: ``python -m tests.db.snapshot`` writes `schema/schema.sql`."""

from pathlib import Path
from typing import Final

from tests.db.schema_picture import schema_picture
from txqueue.embedded import EmbeddedServer
from txqueue.store.schema.migrations import migrate

SNAPSHOT: Final = Path(__file__).resolve().parents[2] / "schema" / "schema.sql"


def write() -> None:
    """Migrate an empty database and write the picture of it."""
    with EmbeddedServer(settings={"fsync": "off"}) as dsn:
        migrate(dsn)
        SNAPSHOT.write_text(schema_picture(dsn), "utf-8")


if __name__ == "__main__":
    write()
    print(f"wrote {SNAPSHOT}")
