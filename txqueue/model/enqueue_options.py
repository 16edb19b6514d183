"""The options of one job, in all calls that enqueue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypedDict

from txqueue.model.work_item import UniqueMode

__all__ = ["EnqueueOptions"]


class EnqueueOptions(TypedDict, total=False):
    """Options of `enqueue`; those left out follow the work type's policy.

    ``not_before`` and ``not_after`` are aware datetimes; ``timeout`` is in seconds or a timedelta;
    ``attempts`` is how many runs the job gets in all; ``expires`` says whether an unstarted job is
    cancelled at its ``not_after``. ``unique`` is a key that at most one unended job of the work
    type holds; ``unique_mode`` says what to do with a new job whose key another job holds;
    ``as_of``, an aware datetime, drops the job if one with the same key was enqueued with the same
    or a later ``as_of``; ``once_for``, seconds or a timedelta, is how long `UniqueMode.ONCE`
    remembers a key. ``created_by`` is shown to operators. ``traceparent`` and ``tracestate``,
    headers of W3C Trace Context, are the trace to continue instead of the current one. ``after``
    has the numbers of the jobs to wait for until they are done, or with ``after_any_end`` until
    they have ended in any way.
    ``tags``, at most 10 texts by name, are for people, who find and filter jobs by them.
    """

    queue: str | None
    priority: int | None
    weight: int | None
    not_before: datetime | None
    not_after: datetime | None
    group: str | None
    tenant: str | None
    timeout: float | timedelta | None
    attempts: int | None
    expires: bool | None
    unique: str | None
    unique_mode: UniqueMode | None
    as_of: datetime | None
    once_for: float | timedelta | None
    created_by: str | None
    traceparent: str | None
    tracestate: str | None
    after: Sequence[int] | None
    after_any_end: bool | None
    tags: Mapping[str, str] | None
