"""Read-only queries about worksets. See `txqueue.store.inquiries.inquiry`."""

from __future__ import annotations

from typing import Any

from txqueue.errors import JobNotFound
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["about_workset_failures", "about_worksets", "workset_of"]

# How many worksets are listed at once.
_TOLD = 100


def about_worksets(
    schema: str,
    work_type: str | None = None,
    after: str | None = None,
    limit: int = _TOLD,
) -> Inquiry[list[dict[str, Any]]]:
    """Query the progress of the first worksets by name, or of the one of a work type.

    Args:
        schema: The name of the schema.
        work_type: The work type; None for all.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    return (
        yield Question(
            "select name, work_type, source, size, batch, bound, is_started, jobs, running,"
            " done, failed, remaining, done + failed + remaining as total, is_exact"
            f" from {schema}.workset_status"
            " where (%s::text is null or work_type || ':workset' = %s)"
            " and (%s::text is null or name > %s) order by name limit %s",
            (work_type, work_type, after, after, limit),
        )
    )


def workset_of(schema: str, work_type: str) -> Inquiry[dict[str, Any] | None]:
    """Query the progress of a work type's workset; None if it has none."""
    worksets = (
        (yield from about_worksets(schema, work_type)) if work_type.endswith(":workset") else []
    )
    return next(iter(worksets), None)


def about_workset_failures(schema: str, name: str, limit: int) -> Inquiry[list[dict[str, Any]]]:
    """Query the failed items of a workset, the latest first.

    Args:
        schema: The name of the schema.
        name: The workset's name.
        limit: The largest number of rows.

    Raises:
        JobNotFound: When there is no such workset.
    """
    if not (yield Question(f"select from {schema}.workset where name = %s", (name,))):
        raise JobNotFound(f"there is no workset {name}", "see: txqueue worksets")
    return (
        yield Question(
            f"select key, origin as part, attempt, {schema}.readable_text(error) as error, at"
            f" from {schema}.workset_failed join {schema}.workset using (workset_id)"
            " where name = %s order by at desc, key limit %s",
            (name, limit),
        )
    )
