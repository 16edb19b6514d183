"""``python -m txqueue.archive``: the process that archives for a node, or reads an archived job.

Without an argument it does what ``txqueue archive`` does. With ``job`` it reads a question as JSON
from its standard input, and prints the archived job as JSON: see
`txqueue.store.inquiries.jobs.read_archived`.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import date, datetime
from typing import Any

from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session


def main() -> int:
    """Do what the argument says; return the exit status."""
    if sys.argv[1:] == ["job"]:
        print(json.dumps(_job(json.load(sys.stdin)), default=datetime.isoformat))
        return 0
    return _archive()


def _archive() -> int:
    """Archive the days that are due; return the exit status."""
    try:
        from txqueue.archive.writing import Archived, archive

        def tell(archived: Archived) -> None:
            print(
                f"archived {archived.jobs} {archived.state} jobs of {archived.day},"
                f" {archived.outcome};",
                flush=True,
            )

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


def _job(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question for an archived job."""
    days = [{**day, "day": date.fromisoformat(day["day"])} for day in request["days"]]
    try:
        from txqueue.archive.reading import archived_job

        return {"job": archived_job(days, request["job_id"])}
    except ImportError as error:
        install = "install it: pip install 'txqueue[archive]'"
        return {"error": [f"job {request['job_id']} is archived: {error}", install]}
    except TxqueueError as error:
        return {"error": [error.what, error.remedy]}


if __name__ == "__main__":
    sys.exit(main())
