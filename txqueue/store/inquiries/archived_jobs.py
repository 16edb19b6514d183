"""Archived jobs: the query for their days, and what the process that reads the archive is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from txqueue.errors import ArchiveUnavailable
from txqueue.model.job import COLUMNS, Job
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows

__all__ = ["READ_COMMAND", "about_archived_days", "job_of", "request_text", "row_in"]

READ_COMMAND: Final = (sys.executable, "-m", "txqueue.archive", "job")
"""Reads a request, and prints the answer; a process, as Parquet takes CPU and a large library."""

_MOMENTS: Final = (
    *("rank", "not_before", "not_after", "enqueued_at", "assigned_at", "started_at"),
    *("finished_at", "failed_at"),
)


def about_archived_days(schema: str, job_id: int) -> Inquiry[Rows]:
    """Query the days that only the archive has, and that have, or may have, a job.

    Args:
        schema: The name of the schema.
        job_id: The job's number.

    Returns:
        ``state, day, location`` of each day.
    """
    return (
        yield Question(
            f"select state::text as state, day, location from {schema}.archived"
            " where dropped_at is not null and (ids is null and jobs > 0"
            " and %s between coalesce(lowest, 0) and coalesce(highest, 9223372036854775807)"
            " or case when %s between lowest and highest then ids @> %s::bigint end)"
            " order by ids is null, day desc",
            (job_id, job_id, job_id),
        )
    )


def request_text(days: Sequence[Mapping[str, Any]], job_id: int) -> bytes:
    """Return the request for a job.

    Args:
        days: The days to search, from `about_archived_days`.
        job_id: The job's number.
    """
    plain = [{**day, "day": day["day"].isoformat()} for day in days]
    return json.dumps({"days": plain, "job_id": job_id}).encode()


def row_in(output: bytes) -> dict[str, Any] | None:
    """Return all columns of an archived job, JSON as text; None if none of the days has it.

    Args:
        output: What the process has printed.

    Raises:
        ArchiveUnavailable: When the archive cannot be read, or not by this installation.
    """
    answer = _parsed(output)
    if "error" in answer:
        raise ArchiveUnavailable(*answer["error"])
    row: dict[str, Any] | None = answer["job"]
    return row and {**row, **{name: _moment(row.get(name)) for name in _MOMENTS}}


def job_of(row: Mapping[str, Any] | None) -> Job | None:
    """Return an archived job; its row may lack columns, as a file of an older release has fewer."""
    return None if row is None else Job.from_row({**dict.fromkeys(COLUMNS), **row})


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _parsed(output: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        end = " ".join(output.decode(errors="replace").split())[-300:]
        raise ArchiveUnavailable(
            f"the process that reads the archive has failed: {end or 'it said nothing'}",
            f"check that {sys.executable} -m txqueue.archive runs",
        ) from None
    return answer
