"""Queries of jobs by their numbers, archived ones too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import evolve

from txqueue.errors import ArchiveUnavailable
from txqueue.model.job import COLUMNS, JSON_COLUMNS, Attempt, Job, State
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask

# JSON as text, because Python cannot parse all JSON that PostgreSQL accepts.
_TEXTS: Final = JSON_COLUMNS | {"state"}
_COLUMNS: Final = ", ".join(
    f'"{name}"::text as "{name}"' if name in _TEXTS else f'"{name}"' for name in COLUMNS
)
_STATES: Final = ", ".join(f"'{state.value}'" for state in State if state.is_final)
_ENDED_COLUMNS: Final = _COLUMNS.replace(
    '"payload"::text', f'case when state in ({_STATES}) then "payload"::text end'
)
_ATTEMPTS: Final = """
    select attempt as number, began, at as ended, node_id, error, error_class, log
      from {schema}.find_attempts({job_id}) where restarted_by is null order by at, attempt"""


def about_awaited(schema: str, ids: Sequence[int]) -> Inquiry[list[Job]]:
    """Query the jobs with the given numbers that exist; those that go on without their payloads.

    Args:
        schema: The name of the schema.
        ids: The jobs' numbers.
    """
    # Of one job, a function keeps the plan; for many it costs more than a plan for each day.
    is_one = len(ids) == 1
    jobs = "find_job(%s)" if is_one else "job where job_id = any(%s::bigint[])"
    parameters = (ids[0] if is_one else list(ids),)
    rows = yield Question(f"select {_ENDED_COLUMNS} from {schema}.{jobs}", parameters)
    return [Job.from_row(row) for row in rows]


def about_one_job(schema: str, job_id: int) -> Inquiry[Job | None]:
    """Query a job with its failed attempts, the oldest first; None if it does not exist."""
    # As JSON, so that one statement returns the job and its attempts.
    failed = _ATTEMPTS.format(schema=schema, job_id="job.job_id")
    rows = yield Question(
        f"select {_COLUMNS}, case when job.attempt > 0 then array("
        f"select row_to_json(failed)::text from ({failed}) as failed) end as attempts"
        # A statement with the number alone is planned anew each time, for every day of history.
        f" from {schema}.find_job(%s) as job",
        (job_id,),
    )
    for row in rows:
        attempts = [read_row(text, "began", "ended") for text in row.pop("attempts") or ()]
        return evolve(Job.from_row(row), attempts=tuple(Attempt(**each) for each in attempts))
    return None


def read_row(text: str, *moments: str) -> dict[str, Any]:
    """Return a row that a statement has returned as JSON; the columns named have moments."""
    values = json.loads(text)
    return {**values, **{name: _moment(values[name]) for name in moments}}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def with_attempts(schema: str, job: Job) -> Inquiry[Job]:
    """Query the failed attempts of an archived job, and return the job with them."""
    if not job.attempt:
        return job
    rows = yield Question(_ATTEMPTS.format(schema=schema, job_id="%s"), (job.id,))
    return evolve(job, attempts=tuple(Attempt(**row) for row in rows))


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
    return ask(
        f"select state::text as state, day, location from {schema}.archived"
        " where dropped_at is not null and (ids is null and jobs > 0"
        " and %s between coalesce(lowest, 0) and coalesce(highest, 9223372036854775807)"
        " or case when %s between lowest and highest then ids @> %s::bigint end)"
        " order by ids is null, day desc",
        (job_id, job_id, job_id),
    )


READ_WITHIN = 60.0
"""Seconds after which a location does not answer."""


def read_archived(days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
    """Return all columns of an archived job, JSON as text; None if none of the days has it.

    It blocks while another process reads them, as Parquet takes CPU and a large library.

    Args:
        days: The days to search, from `about_archived_days`.
        job_id: The job's number.

    Raises:
        ArchiveUnavailable: When the archive cannot be read, or not by this installation.
    """
    plain = [{**day, "day": day["day"].isoformat()} for day in days]
    request = json.dumps({"days": plain, "job_id": job_id}).encode()
    command = (sys.executable, "-m", "txqueue.archive", "job")
    try:
        found = subprocess.run(
            command, input=request, capture_output=True, check=False, timeout=READ_WITHIN
        )
    except subprocess.TimeoutExpired:
        raise ArchiveUnavailable(
            f"the archive of job {job_id} was not read within {READ_WITHIN:g} s",
            "see whether its location answers, then read again",
        ) from None
    answer = _parsed(found.stdout or found.stderr)
    if "error" in answer:
        raise ArchiveUnavailable(*answer["error"])
    row: dict[str, Any] | None = answer["job"]
    return row and {**row, **{name: _moment(row.get(name)) for name in _MOMENTS}}


def archived_job(row: Mapping[str, Any] | None) -> Job | None:
    """Return an archived job; its row may lack columns, as a file of an older release has fewer."""
    return None if row is None else Job.from_row({**dict.fromkeys(COLUMNS), **row})


# What a copy of an archived job has of it, besides its payload and options.
_COPIED: Final = ("work_type", "queue", "priority", "weight", "group", "tenant")


def repeat_call(
    schema: str,
    job_id: int,
    archived: Mapping[str, Any] | None,
    payload: str | None = None,
    who: str = "",
) -> Question:
    """Return the call that enqueues a copy of a job, and returns the copy's number.

    Args:
        schema: The name of the schema.
        job_id: The job's number.
        archived: The columns of the archived job, if it is one.
        payload: The JSON text of the copy's payload, if it is another one.
        who: The operator; empty for the role of the session.
    """
    if archived is None:
        return Question(f"select {schema}.repeat(%s, %s, %s::jsonb)", (job_id, who, payload))
    columns = {name: archived[name] for name in _COPIED}
    if payload is not None:
        # Only to tell which keys came from it.
        columns["payload"] = json.loads(archived["payload"])
    return Question(
        f"select {schema}.repeat_archived(its_job_id => %s, columns => %s,"
        " its_payload => %s, its_options => %s, who => %s)",
        (job_id, json.dumps(columns), payload or archived["payload"], archived["options"], who),
    )


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
