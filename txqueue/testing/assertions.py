"""Assertions about enqueued jobs, read through the test's own open transaction."""

from __future__ import annotations

import time
from typing import Any, Final

from attrs import evolve

from txqueue.model.job import Job, State
from txqueue.store.enqueued_jobs import JobSearch, find_jobs, found_jobs, last_number
from txqueue.testing.connections import Bound, bound, finished, pause
from txqueue.testing.matching import Found, Kind, Wanted, listing

__all__ = [
    "Capture",
    "aall_enqueued",
    "aassert_enqueued",
    "all_enqueued",
    "arefute_enqueued",
    "assert_enqueued",
    "capture_enqueued",
    "refute_enqueued",
]

# pytest and unittest leave this module out of tracebacks.
__tracebackhide__ = __unittest = True

_PAUSE: Final = 0.02
_CAPTURE: Final = "what async with capture_enqueued() enters"


def assert_enqueued(
    cls: Kind | None = None,
    *,
    count: int | None = None,
    within: float = 0.0,
    connection: Any = None,
    schema: str | None = None,
    **match: Any,
) -> Job:
    """Assert that a job is enqueued, and return it; of several, the last one.

    Jobs count that the connection sees and that have not ended: those of its own open transaction
    too. With ``state=``, jobs in that state count.

    Args:
        cls: The class of its work item, or the task; None for any.
        count: How many such jobs there must be; None for at least one.
        within: Seconds to wait, for jobs that other processes enqueue.
        connection: The test's connection; see `connected`.
        schema: The name of txqueue's schema; see `connected`.
        match: Values of fields of the class, and of attributes of the job: ``queue``,
            ``priority``, ``group``, ``tenant``, ``not_before``, ``tags`` (these and perhaps
            others), ``state`` and so on.

    Raises:
        AssertionError: When there is none, or another number; says which jobs there are, and how
            they differ.
        TypeError: When neither the class nor jobs have an attribute of a name.
    """
    asserting = aassert_enqueued(
        cls, count=count, within=within, connection=connection, schema=schema, **match
    )
    return finished(asserting, connection, "aassert_enqueued()")


def refute_enqueued(
    cls: Kind | None = None,
    *,
    within: float = 0.0,
    connection: Any = None,
    schema: str | None = None,
    **match: Any,
) -> None:
    """Assert that no such job is enqueued, and with ``within``, that none is for so many seconds.

    The arguments are those of `assert_enqueued`.

    Raises:
        AssertionError: When there is one; says which.
    """
    refuting = arefute_enqueued(cls, within=within, connection=connection, schema=schema, **match)
    finished(refuting, connection, "arefute_enqueued()")


def all_enqueued(
    cls: Kind | None = None, *, connection: Any = None, schema: str | None = None, **match: Any
) -> list[Job]:
    """Return all such jobs, in the order in which they were enqueued; see `assert_enqueued`."""
    finding = aall_enqueued(cls, connection=connection, schema=schema, **match)
    return finished(finding, connection, "aall_enqueued()")


async def aassert_enqueued(
    cls: Kind | None = None,
    *,
    count: int | None = None,
    within: float = 0.0,
    connection: Any = None,
    schema: str | None = None,
    **match: Any,
) -> Job:
    """Assert that a job is enqueued, over any connection; see `assert_enqueued`."""
    if count is not None and count < 1:
        raise ValueError(f"count={count}: to assert that there is none, call refute_enqueued()")
    wanted, session = Wanted.of(cls, match), await bound(connection, schema)
    until = time.monotonic() + within
    while not _is_met(found := await _find(session, wanted.search), count):
        if time.monotonic() >= until:
            raise AssertionError(await _complaint(session, wanted, found, count, within))
        await pause(session, _PAUSE)
    return found[-1][0]


async def arefute_enqueued(
    cls: Kind | None = None,
    *,
    within: float = 0.0,
    connection: Any = None,
    schema: str | None = None,
    **match: Any,
) -> None:
    """Assert that no such job is enqueued, over any connection; see `refute_enqueued`."""
    wanted, session = Wanted.of(cls, match), await bound(connection, schema)
    until = time.monotonic() + within
    while not (found := await _find(session, wanted.search)) and time.monotonic() < until:
        await pause(session, _PAUSE)
    if found:
        raise AssertionError(f"no {wanted} should be enqueued:\n{listing(wanted, found)}")


async def aall_enqueued(
    cls: Kind | None = None, *, connection: Any = None, schema: str | None = None, **match: Any
) -> list[Job]:
    """Return all such jobs, over any connection; see `all_enqueued`."""
    wanted, session = Wanted.of(cls, match), await bound(connection, schema)
    return [job for job, _ in await _find(session, wanted.search)]


class Capture(list[Job]):
    """The jobs that were enqueued in a block, once it has ended; made by `capture_enqueued`."""

    def __init__(self, wanted: Wanted, connection: Any, schema: str | None) -> None:
        super().__init__()
        self._wanted = wanted
        self._connection = connection
        self._schema = schema
        self._since = 0

    def __enter__(self) -> Capture:
        """Begin."""
        return finished(self._begin(), self._connection, _CAPTURE)

    def __exit__(self, *error: object) -> None:
        """Find the jobs, unless an error has ended the block."""
        if error[0] is None:
            finished(self._end(), self._connection, _CAPTURE)

    async def __aenter__(self) -> Capture:
        """Begin, over any connection."""
        return await self._begin()

    async def __aexit__(self, *error: object) -> None:
        """Find the jobs, over any connection."""
        if error[0] is None:
            await self._end()

    async def _begin(self) -> Capture:
        session = await bound(self._connection, self._schema)
        self._since = int(await session.value(last_number(session.schema, session.foreign.style)))
        return self

    async def _end(self) -> None:
        session = await bound(self._connection, self._schema)
        search = evolve(self._wanted.search, since=self._since)
        self[:] = [job for job, _ in await _find(session, search)]


def capture_enqueued(
    cls: Kind | None = None, *, connection: Any = None, schema: str | None = None, **match: Any
) -> Capture:
    """Collect the jobs that are enqueued in a ``with`` block, or an ``async with`` block.

    Its value is a list, filled at the end of the block: jobs in any state, also those that have run
    since. The arguments are those of `assert_enqueued`.
    """
    wanted = Wanted.of(cls, {"state": tuple(State), **match})
    return Capture(wanted, connection, schema)


async def _find(session: Bound, search: JobSearch) -> list[Found]:
    return found_jobs(await session.value(find_jobs(search, session.schema, session.foreign.style)))


def _is_met(found: list[Found], count: int | None) -> bool:
    return bool(found) if count is None else len(found) == count


async def _complaint(
    session: Bound, wanted: Wanted, found: list[Found], count: int | None, within: float
) -> str:
    number = f"no {wanted} is" if count is None else f"not {count} but {len(found)}: {wanted}"
    waited = f" after {within:g} s" if within else ""
    others = await _find(session, JobSearch())
    return f"{number} enqueued{waited}. There are:\n{listing(wanted, others)}"
