"""What the doctor looks for: ``python -m tests.db.snapshot`` writes `schema/objects.txt`."""

import re
from pathlib import Path
from typing import Final

from txqueue.embedded import EmbeddedServer
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.examination.statements import OBJECTS, ROWS
from txqueue.store.schema.migrations import migrate

SNAPSHOT: Final = Path(__file__).resolve().parents[2] / "schema" / "objects.txt"


def objects(dsn: str) -> list[str]:
    """List the tables, columns, indexes and rows of a migrated database, but for single days."""
    with Session(dsn) as session:
        found = [
            str(row["object"])
            for sql in (OBJECTS, ROWS)
            for row in session.dicts(sql.format(schema="txqueue"))
        ]
    # What the lack of another one implies comes after it.
    kinds = ("table", "sequence", "column", "index", "row", "rows")
    lasting = (line for line in found if not re.search(r"_[0-9]{8}\b", line))
    return sorted(lasting, key=lambda line: (kinds.index(line.split()[0]), line))


def write() -> None:
    """Migrate an empty database and list what it has."""
    with EmbeddedServer(settings={"fsync": "off"}) as dsn:
        migrate(dsn)
        SNAPSHOT.write_text("".join(f"{line}\n" for line in objects(dsn)), "utf-8")


if __name__ == "__main__":
    write()
    print(f"wrote {SNAPSHOT}")
