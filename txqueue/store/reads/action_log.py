"""Read-only queries of the log of operators' acts."""

from __future__ import annotations

from typing import Any

from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["about_actions", "actions_on"]

_NAMING = """
    action_id = any(array(
        select action_id from {schema}.action where detail -> 'jobs' @> to_jsonb(%s::bigint)))
"""


def about_actions(
    schema: str, before: int | None, limit: int, subject: str | None = None
) -> Inquiry[list[dict[str, Any]]]:
    """Query the acts of operators, the latest first.

    Args:
        schema: The name of the schema.
        before: Only acts with a smaller number.
        limit: The largest number of rows.
        subject: Only acts on this subject.
    """
    conditions = {"action_id < %s": before, "subject = %s": subject}
    values = {condition: value for condition, value in conditions.items() if value is not None}
    return (yield _found(schema, " and ".join(values) or "true", *values.values(), limit))


def actions_on(schema: str, job_id: int, limit: int) -> Question:
    """Return the question for the latest acts on a job."""
    return _found(schema, _NAMING.format(schema=schema), job_id, limit)


def _found(schema: str, condition: str, *parameters: object) -> Question:
    return Question(
        f"select action_id, at, who, what, subject, {schema}.readable_json(detail) as detail"
        f" from {schema}.action"
        f" where {condition} order by action_id desc limit %s",
        parameters,
    )
