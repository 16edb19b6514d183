"""Assertions about enqueued jobs, read through the test's own open transaction, and how jobs differ
from them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import attrs

from txqueue.errors import InvalidWork
from txqueue.model.humanize import meant
from txqueue.model.job import COLUMNS, JSON_COLUMNS, Job, State
from txqueue.model.payload import encode_fields
from txqueue.model.record_types import fields_of
from txqueue.model.work_item import WorkItem, find_work_type
from txqueue.store.given_jobs import LIVE, TIMES, JobSearch, find_jobs, found_jobs, last_number
from txqueue.testing.connections import Bound, blocking, bound, finished, pause
from txqueue.worker.handlers.task import Task


class DjangoTask(Protocol):
    """A task of Django."""

    @property
    def module_path(self) -> str:
        """Where it is imported from, which is the name of its work type."""


Kind = type[WorkItem] | Task[..., ..., Any] | DjangoTask
Found = tuple[Job, Mapping[str, str]]

_MOST_LISTED: Final = 10
_NOTHING: Final = object()
_OTHER: Final = JSON_COLUMNS | TIMES - {"not_before", "not_after"} | {"job_id"}
_BY_COLUMN: Final = frozenset({"id", "tags", *COLUMNS} - _OTHER)


def class_of(kind: Any) -> type[WorkItem]:
    """Return the class of work items that a class or a task stands for."""
    cls = kind.item if isinstance(kind, Task) else kind
    if isinstance(path := getattr(kind, "module_path", None), str):
        cls = find_work_type(path)
    if isinstance(cls, type) and issubclass(cls, WorkItem):
        return cls
    raise TypeError(f"{kind!r} is neither a class of work items nor a task")


@attrs.frozen
class Wanted:
    """What a call looks for.

    Attributes:
        cls: The class of the jobs; None for any.
        states: Their states.
        fields: Values of the payload, as JSON has them.
        defaults: The values of fields that a payload may leave out.
        about: Values of attributes of the jobs.
        tags: Tags among others.
    """

    cls: type[WorkItem] | None
    states: Sequence[State]
    fields: Mapping[str, Any]
    defaults: Mapping[str, Any]
    about: Mapping[str, Any]
    tags: Mapping[str, str]

    @classmethod
    def of(cls, kind: Kind | None, match: Mapping[str, Any]) -> Wanted:
        """Return what is wanted, from the arguments of an assertion.

        Raises:
            TypeError: When a name is neither a field of the class nor an attribute of jobs.
        """
        work = None if kind is None else class_of(kind)
        names = [field.name for field in _fields_of(work)]
        _check_names(work, match, names)
        in_payload = {name: value for name, value in match.items() if name in names}
        about = {name: value for name, value in match.items() if name not in names}
        states, tags = about.pop("state", LIVE), about.pop("tags", {})
        about = {name: _checked(name, value) for name, value in about.items()}
        chosen = [states] if isinstance(states, str) else states
        return cls(work, [*map(State, chosen)], *_fields(work, in_payload), about, tags)

    def search(self, since: int = 0) -> JobSearch:
        """Return the search that finds them, among others."""
        return JobSearch(self.cls.work_type if self.cls else None, self.states, since)

    def differences(self, found: Found) -> list[str]:
        """Return in words how a job differs."""
        job, tags = found
        payload = {**self.defaults, **(job.payload if isinstance(job.payload, dict) else {})}
        parts = [("", self.about, attrs.asdict(job, recurse=False)), ("", self.fields, payload)]
        texts = [
            f"{kind}{name}={_shown(values.get(name, _NOTHING))}, not {_shown(value)}"
            for kind, wanted, values in (*parts, ("tag ", self.tags, tags))
            for name, value in wanted.items()
            if not _is_same(values.get(name, _NOTHING), value)
        ]
        return texts if job.state in self.states else [*texts, f"it is {job.state}"]

    def __str__(self) -> str:
        values = {**self.fields, **self.about, **self.tags}
        if tuple(self.states) != LIVE:
            values["state"] = "/".join(self.states)
        text = "job" if self.cls is None else f"job of {self.cls.work_type}"
        named = ", ".join(f"{name}={_plain(value)!r}" for name, value in values.items())
        return f"{text} with {named}" if named else text


def _fields_of(work: Any) -> Sequence[Any]:
    return () if work is None else fields_of(work)


def _check_names(
    work: type[WorkItem] | None, match: Mapping[str, Any], fields: Iterable[str]
) -> None:
    for name in match:
        if name not in fields and name not in _BY_COLUMN:
            question = meant(name, [*fields, *_BY_COLUMN])
            guess = question and f" ({question})"
            whose = "jobs have" if work is None else f"{work.work_type} and its jobs have"
            raise TypeError(
                f"{whose} no {name}{guess}; fields: {', '.join(fields) or 'none'};"
                f" attributes of jobs: {', '.join(sorted(_BY_COLUMN))}"
            )


def _fields(
    work: type[WorkItem] | None, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values of a payload as JSON has them, and those that it may leave out."""
    if work is None or not values:
        return {}, {}
    if work.encrypted:
        raise InvalidWork(
            f"the payloads of {work.work_type} are encrypted, and cannot be searched",
            "look for other attributes of the job, such as queue, and decode its payload",
        )
    fields = encode_fields(work, values)
    return fields, encode_fields(work, _defaults(work)) if work.omit_defaults else {}


def _defaults(work: type[WorkItem]) -> dict[str, Any]:
    plain = {
        field.name: field.default
        for field in _fields_of(work)
        if field.default is not attrs.NOTHING
    }
    return {
        name: default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
        for name, default in plain.items()
        if not getattr(default, "takes_self", False)
    }


def _checked(name: str, value: Any) -> Any:
    is_moment = isinstance(value, datetime) and value.utcoffset() is not None
    if name in TIMES and not (value is None or is_moment):
        raise TypeError(f"{name} is compared with a datetime with a time zone, not {value!r}")
    return getattr(value, "value", value)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _is_same(found: Any, wanted: Any) -> bool:
    """Tell whether values are equal in JSON, where true is not 1."""
    return bool(found == wanted) and isinstance(found, bool) is isinstance(wanted, bool)


def _shown(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else repr(value)
    text = "nothing" if value is _NOTHING else text
    return text if len(text) <= 80 else f"{text[:77]}..."


def listing(wanted: Wanted, found: Sequence[Found]) -> str:
    """Return the lines of a failure that say which jobs there are, those nearest first."""
    if not found:
        return (
            "this connection sees no job at all; what another connection has not committed is"
            " invisible to it: pass the one that enqueues"
        )
    alike = [each for each in found if _is_of(wanted, each)]
    alike.sort(key=lambda each: len(wanted.differences(each)))
    lines = [_line(wanted, each) for each in alike[:_MOST_LISTED]]
    if more := len(alike) - len(lines):
        lines.append(f"and {more} more")
    if others := Counter(job.work_type for job, _ in found if (job, _) not in alike):
        named = ", ".join(f"{name} ({count})" for name, count in others.most_common(_MOST_LISTED))
        lines.append(f"jobs of other types: {named}")
    return "\n".join(f"  {line}" for line in lines)


def _is_of(wanted: Wanted, found: Found) -> bool:
    return wanted.cls is None or found[0].work_type == wanted.cls.work_type


def _line(wanted: Wanted, found: Found) -> str:
    job = found[0]
    is_hidden = wanted.cls is not None and (wanted.cls.redacted or wanted.cls.encrypted)
    payload = "" if is_hidden else f" {_shown(job.payload)}"
    differences = "; ".join(wanted.differences(found)) or "as wanted"
    return f"job {job.id} {job.work_type} in {job.queue}, {job.state}{payload}: {differences}"


# pytest and unittest leave this module out of tracebacks.
__tracebackhide__ = __unittest = True

_PAUSE: Final = 0.02
_CAPTURE: Final = "what async with capture_enqueued() enters"


async def aassert_enqueued(
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
    if count is not None and count < 1:
        raise ValueError(f"count={count}: to assert that there is none, call refute_enqueued()")
    wanted, session = Wanted.of(cls, match), await bound(connection, schema)
    until = time.monotonic() + within
    while not _is_met(found := await matching(session, wanted), count):
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
    """Assert that no such job is enqueued, and with ``within``, that none is for so many seconds.

    The arguments are those of `assert_enqueued`.

    Raises:
        AssertionError: When there is one; says which.
    """
    wanted, session = Wanted.of(cls, match), await bound(connection, schema)
    until = time.monotonic() + within
    while not (found := await matching(session, wanted)) and time.monotonic() < until:
        await pause(session, _PAUSE)
    if found:
        raise AssertionError(f"no {wanted} should be enqueued:\n{listing(wanted, found)}")


async def aall_enqueued(
    cls: Kind | None = None, *, connection: Any = None, schema: str | None = None, **match: Any
) -> list[Job]:
    """Return all such jobs, in the order in which they were enqueued; see `assert_enqueued`."""
    wanted, session = Wanted.of(cls, match), await bound(connection, schema)
    return [job for job, _ in await matching(session, wanted)]


assert_enqueued: Final = blocking(aassert_enqueued)
refute_enqueued: Final = blocking(arefute_enqueued)
all_enqueued: Final = blocking(aall_enqueued)


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
        self._since = int(await session.value(last_number(session.schema, session.style)))
        return self

    async def _end(self) -> None:
        session = await bound(self._connection, self._schema)
        self[:] = [job for job, _ in await matching(session, self._wanted, self._since)]


def capture_enqueued(
    cls: Kind | None = None, *, connection: Any = None, schema: str | None = None, **match: Any
) -> Capture:
    """Collect the jobs that are enqueued in a ``with`` block, or an ``async with`` block.

    Its value is a list, filled at the end of the block: jobs in any state, also those that have run
    since. The arguments are those of `assert_enqueued`.
    """
    wanted = Wanted.of(cls, {"state": tuple(State), **match})
    return Capture(wanted, connection, schema)


async def matching(session: Bound, wanted: Wanted, since: int = 0) -> list[Found]:
    """Return the jobs that are wanted, of those with larger numbers, in their order."""
    found = await searched(session, wanted.search(since))
    return [each for each in found if not wanted.differences(each)]


async def searched(session: Bound, search: JobSearch) -> list[Found]:
    """Return the jobs that a search finds, in their order."""
    return found_jobs(await session.value(find_jobs(search, session.schema, session.style)))


def _is_met(found: list[Found], count: int | None) -> bool:
    return bool(found) if count is None else len(found) == count


async def _complaint(
    session: Bound, wanted: Wanted, found: list[Found], count: int | None, within: float
) -> str:
    number = f"no {wanted} is" if count is None else f"not {count} but {len(found)}: {wanted}"
    waited = f" after {within:g} s" if within else ""
    others = await searched(session, JobSearch())
    return f"{number} enqueued{waited}. There are:\n{listing(wanted, others)}"
