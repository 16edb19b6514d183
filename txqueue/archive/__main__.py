"""``python -m txqueue.archive``: the process in which a node archives; see ``txqueue archive``."""

from __future__ import annotations

import os
import sys

from txqueue.errors import TxqueueError
from txqueue.store.reader import Session


def main() -> int:
    """Archive the days that are due; return the exit status."""
    try:
        from txqueue.archive.writing import Archived, archive

        def tell(one: Archived) -> None:
            print(f"archived {one.jobs} {one.state} jobs of {one.day}, {one.outcome};", flush=True)

        dsn, schema = (os.environ[f"TXQUEUE_{name}"] for name in ("DSN", "SCHEMA"))
        with Session(dsn, schema, "txqueue archive") as session:
            archive(session, advance=tell)
    except ImportError as error:
        print(f"{error}; install it: pip install 'txqueue[archive]'", file=sys.stderr)
        return 1
    except TxqueueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
