"""The settings of a queue without Twisted, and its calls of stored functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import brief
from txqueue.model.job import job_number
from txqueue.model.operator_acts import Cancelled
from txqueue.policy.awaited_ends import ANNOUNCED_FOR
from txqueue.standalone.sessions import check_dsn, dsn_of_pool
from txqueue.store.inquiries.inquiry import Inquiry, Question, ask
from txqueue.store.schema.files import checked_name
from txqueue.system.settings import Settings

Call = Question
# Seconds.
_CONNECTION_WAIT: Final = 30.0
HEARD_WITHIN: Final = 3.0
"""Seconds in which a notification arrives, if notifications do."""
LISTENS_AGAIN: Final = 60.0
"""Seconds after which a queue tries again to listen where no notification has arrived."""


@frozen
class Target:
    """Where a queue is and listens, how many connections it has, how long callers wait for one."""

    dsn: str
    listen_dsn: str | None
    schema: str
    connections: int
    connection_wait: float

    @property
    def channel(self) -> str:
        """The channel on which nodes announce the ends of jobs."""
        return f"{self.schema}_ended"


def target_of(
    given: Mapping[str, Any], listen_dsn: str | None, pool: Any, pool_class: str
) -> Target:
    """Look up what the caller has left out: in the environment, then in the configuration file.

    Args:
        given: What the caller has given.
        listen_dsn: Where to listen.
        pool: The caller's own pool.
        pool_class: The name of the class of psycopg_pool that it must have.

    Raises:
        ConfigurationError: When a setting is not valid.
    """
    if pool is not None:
        _check_pool(pool, pool_class, given)
    for name, value in (("the DSN", given["dsn"]), ("listen_dsn", listen_dsn)):
        if value:
            check_dsn(value, name)
    settings = Settings(given, os.environ, Path.cwd(), is_call=True)
    dsn = settings.dsn()
    return Target(
        dsn,
        listen_dsn or (dsn if pool is None else dsn_of_pool(pool)),
        checked_name(settings.get("schema", "txqueue")),
        settings.whole("connections", 4),
        settings.seconds("connection_wait", _CONNECTION_WAIT, least=0.001),
    )


def _check_pool(pool: object, pool_class: str, given: Mapping[str, Any]) -> None:
    # Programs without a pool need not have psycopg_pool.
    pools = sys.modules.get("psycopg_pool")
    if pools is None or not isinstance(pool, getattr(pools, pool_class)):
        raise ConfigurationError(
            f"the given pool is {brief(pool)}", f"pass an open {pool_class} of psycopg_pool"
        )
    if given["connection_wait"] is not None:
        raise ConfigurationError(
            "connection_wait has no effect on a pool of your own", "set the timeout of the pool"
        )
    if given["dsn"] is not None:
        raise ConfigurationError(
            "the DSN has no effect on a pool of your own",
            "leave it out, or pass where to listen as listen_dsn",
        )


def announcement(schema: str) -> Call:
    """Return the call by which nodes announce the ends of jobs for some seconds."""
    return Call(f"select {schema}.request_end_notices(%s)", (ANNOUNCED_FOR,))


def trial(channel: str) -> Call:
    """Return the call that shows, from another session, whether notifications arrive."""
    return Call("select pg_notify(%s, '')", (channel,))


def no_notifications() -> ConfigurationError:
    """Return the error for a connection on which no notification arrives."""
    return ConfigurationError(
        "no notification arrives: the DSN leads through a pooler in transaction mode, or listen_dsn"
        " to another database",
        "connect with a listen_dsn that leads to PostgreSQL itself or to a pool in session mode",
    )


def cancelled(schema: str, job_ids: Iterable[int]) -> Inquiry[Cancelled]:
    """Cancel jobs.

    Raises:
        InvalidWork: When one is no number of a job.
    """
    numbers = list(map(job_number, job_ids))
    [row] = yield from ask(f"select * from {schema}.cancel(%s::bigint[], '')", (numbers,))
    return Cancelled(row["cancelled"], [run[2] for run in row["requested"]], row["refused"])


def retried(schema: str, job_ids: Iterable[int]) -> Inquiry[tuple[list[int], list[int]]]:
    """Retry jobs.

    Raises:
        InvalidWork: When one is no number of a job.
    """
    numbers = list(map(job_number, job_ids))
    [row] = yield from ask(f"select * from {schema}.retry(%s::bigint[], '')", (numbers,))
    return row["retried"], row["refused"]
