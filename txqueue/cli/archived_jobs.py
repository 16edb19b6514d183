"""Finds archived jobs, for the commands that take the number of one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from txqueue.cli.source import read_database
from txqueue.errors import ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from txqueue.cli.options import GlobalOptions

__all__ = ["archived_row", "or_archived", "with_pyarrow"]

T = TypeVar("T")


def or_archived(
    options: GlobalOptions, job_id: int, find: Callable[[], T], tell: Callable[[dict[str, Any]], T]
) -> T:
    """Return the answer about a job from the database, or else from the archive.

    Args:
        options: Name the database, whose settings have the archive's location.
        job_id: The job's number.
        find: Returns the answer from the database.
        tell: Returns the same answer from the columns of the archived job.

    Raises:
        JobNotFound: When the job is in neither place.
    """
    try:
        return find()
    except JobNotFound:
        row = archived_row(options, job_id)
        if row is None:
            raise
    return tell(row)


def archived_row(options: GlobalOptions, job_id: int) -> dict[str, Any] | None:
    """Return all columns of an archived job; None if no archived job has that number."""
    from txqueue.store.inquiries.archived_jobs import about_archived_days

    days = read_database(options, lambda schema: about_archived_days(schema, job_id))
    if not days:
        return None
    with with_pyarrow():
        from txqueue.archive.reading import archived_job
    return archived_job(days, job_id)


@contextmanager
def with_pyarrow() -> Iterator[None]:
    """Convert the block's ImportError, if pyarrow is missing, into an error that has a remedy."""
    try:
        yield
    except ImportError as error:
        if error.name != "pyarrow":
            raise
        raise ConfigurationError(
            "archives need pyarrow", "install it: pip install 'txqueue[archive]'"
        ) from None
