"""Finds jobs that exist only in the archive, for a client's calls."""

from __future__ import annotations

import json
from typing import Any, Final

from txqueue.model.job import Job
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.inquiries.archived_jobs import about_archived_days, job_of
from txqueue.store.inquiries.pooled import find
from txqueue.store.reads.archive_process import ArchiveProcess, ProcessStarter

__all__ = ["ArchivedJobs"]

_REPEATED: Final = ("work_type", "queue", "priority", "weight", "group", "tenant")


class ArchivedJobs:
    """Reads archived jobs.

    Args:
        reactor: Starts the process that reads the archive.
        pool: The connections to the database, which has the days of the archive.
        schema: The name of the schema.
    """

    def __init__(self, reactor: ProcessStarter, pool: ConnectionPool, schema: str) -> None:
        self._archive = ArchiveProcess(reactor)
        self._pool = pool
        self._schema = schema

    async def job(self, job_id: int) -> Job | None:
        """Return an archived job; None if no archive has it.

        Raises:
            ArchiveUnavailable: When the archive cannot be read.
        """
        return job_of(await self._row(job_id))

    async def repeat(self, job_id: int) -> int | None:
        """Enqueue a copy of an archived job and return its number; None if no archive has it.

        Raises:
            ArchiveUnavailable: When the archive cannot be read.
        """
        sql = f"select from {self._schema}.find_job(%s)"
        if await self._pool.query(sql, (job_id,)):
            return None
        row = await self._row(job_id)
        if row is None:
            return None
        columns = json.dumps({name: row[name] for name in _REPEATED})
        [[number]] = await self._pool.query(
            f"select {self._schema}.repeat_archived(its_job_id => %s, columns => %s,"
            " its_payload => %s, its_options => %s, who => '')",
            (job_id, columns, row["payload"], row["options"]),
        )
        return int(number)

    async def _row(self, job_id: int) -> dict[str, Any] | None:
        days = await find(self._pool, about_archived_days(self._schema, job_id))
        return await self._archive.job(days, job_id)
