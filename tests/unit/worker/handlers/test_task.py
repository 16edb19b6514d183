"""Functions as work: their parameters are the payload, and to call one is to call it."""

from __future__ import annotations

import inspect
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txqueue
from txqueue import Key, Priority, Retry, Runtime, WorkItem, task
from txqueue.errors import InvalidWork
from txqueue.model.payload import decode, encode
from txqueue.model.results import result_type
from txqueue.model.work_item import find_work_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from txqueue import RunningJob


@attrs.define
class Address:
    """Data in an argument."""

    street: str
    since: date


@task
async def greet(
    name: str, times: int = 1, /, *, at: datetime | None = None, to: Address | None = None
) -> tuple[Any, ...]:
    """Return the arguments."""
    return name, times, at, to


@task(
    name="tasks.mail", queue="mail", priority=Priority.HIGH, retry=Retry(5), group=Key("u:{user}")
)
def mail(job: RunningJob, user: int, language: str = "en", *, _copies: list[str]) -> str:
    """Mail a user."""
    return f"{job} {user} {language} {_copies}"


@task(runtime=Runtime.ASYNCIO, redacted=True, tags={"team": "billing"})
async def bill(job: txqueue.RunningJob, amount: Annotated[int, "cents"]) -> int:
    """Bill an amount."""
    return amount


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    st.integers(-(2**63), 2**63),
    st.none() | st.datetimes(timezones=st.just(UTC)),
    st.none() | st.builds(Address, st.just("x"), st.dates()),
)
async def test_a_worker_calls_the_function_with_the_arguments_of_work(
    name: str, times: int, at: datetime | None, to: Address | None
) -> None:
    """Equal and of the same types, through JSON, whatever they are."""
    work = greet.work(name, times, at=at, to=to)
    read = decode(type(work), encode(work))
    assert await _result(read.perform(None)) == (name, times, at, to)
    assert await greet(name, times, at=at, to=to) == (name, times, at, to)


def test_the_calls_of_other_queues_are_told_ours() -> None:
    """As an attribute that is missing, so that what looks for one finds none."""
    with pytest.raises(AttributeError, match=r"no attribute 'delay'; .*enqueue\(connection, task"):
        greet.delay("Ada")  # type: ignore[attr-defined]
    assert not hasattr(greet, "unknown")


def test_a_call_is_a_call() -> None:
    """With the job as a test gives it, and without any queue."""
    job: Any = "job"
    assert mail(job, 7, _copies=["a"]) == "job 7 en ['a']"
    assert (mail.__name__, mail.__doc__, mail.work_type) == ("mail", "Mail a user.", "tasks.mail")


def test_a_parameter_that_takes_the_job_is_no_part_of_the_payload() -> None:
    """Whether or not its annotation can be evaluated: that would import Twisted."""
    assert encode(mail.work(7, _copies=[])) == {"user": 7, "language": "en", "_copies": []}
    assert mail.work(7, "de", _copies=[]).perform("job") == "job 7 de []"
    assert encode(bill.work(amount=5)) == {"amount": 5}


def test_it_is_a_work_type_as_a_class_is() -> None:
    """With its policy, its own name or the function's, and registered."""
    item = mail.item
    assert find_work_type("tasks.mail") is item
    assert (item.queue, item.priority, item.retry) == ("mail", 7, Retry(5))
    assert mail.work(7, _copies=[]).group == "u:7"
    assert greet.work_type == "tests.unit.worker.handlers.test_task.greet"
    assert repr(bill.work(3)) == "bill(redacted)"
    assert bill.work(3).tags == {"team": "billing"}


def test_a_plain_function_runs_in_a_thread_unless_it_says_otherwise() -> None:
    """A coroutine runs in the reactor, of asyncio if it says so."""

    @task(name="tasks.deferring", runtime=Runtime.TWISTED)
    def deferring(number: int) -> int:
        return number

    kinds = [each.item.runtime for each in (mail, greet, bill, deferring)]
    assert kinds == [Runtime.THREAD, Runtime.TWISTED, Runtime.ASYNCIO, Runtime.TWISTED]


@pytest.mark.parametrize(
    ("arguments", "named"), [((), {}), ((1, 2, 3), {"_copies": []}), ((1,), {"copies": []})]
)
def test_wrong_arguments_are_refused_where_work_is_made(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """As by the function itself."""
    make: Callable[..., Any] = mail.work
    with pytest.raises(TypeError, match=r"mail\.__init__\(\)"):
        make(*arguments, **named)


def test_a_value_of_another_type_is_refused_at_enqueue() -> None:
    """By the same rules as fields."""
    make: Callable[..., Any] = greet.work
    with pytest.raises(InvalidWork, match=r"the fields of greet do not fit: .* @ \$\.times"):
        encode(make("ann", "7"))


async def _yields(number: int) -> Any:
    yield number


def _unannotated(number):  # type: ignore[no-untyped-def]  # what it is about
    pass


def _any_number(*numbers: int) -> None:
    pass


def _job_last(number: int, job: RunningJob) -> None:
    pass


def _hiding(queue: str) -> None:
    pass


def _unknown(number: Undefined) -> None:  # type: ignore[name-defined]  # noqa: F821 - the test's
    pass


def _plain(number: int) -> None:
    pass


def _bound(self, number: int) -> None:  # type: ignore[no-untyped-def]
    pass


def _job_first(job, number: int) -> None:  # type: ignore[no-untyped-def]
    pass


@pytest.mark.parametrize(("function", "name"), [(_bound, "self"), (_job_first, "job")])
def test_a_parameter_for_the_job_without_annotation(
    function: Callable[..., None], name: str
) -> None:
    """The remedy has what to annotate, which other queues do not need."""
    with pytest.raises(InvalidWork, match=f"the parameter {name} of") as caught:
        txqueue.task(function)
    assert f"{name}: txqueue.RunningJob, or txqueue.ThreadJob" in caught.value.remedy


@pytest.mark.parametrize(
    ("function", "policy", "said"),
    [
        (_yields, {}, "_yields yields, and nothing would run it"),
        (_unannotated, {}, "the parameter number of _unannotated has no annotation"),
        (_any_number, {}, "the parameter numbers of _any_number takes any number of arguments"),
        (_job_last, {}, "the parameter job of _job_last takes the job and is not the first"),
        (_hiding, {}, "the parameter queue of _hiding has the name of an attribute of WorkItem"),
        (_unknown, {}, "the annotations of _unknown cannot be used: name 'Undefined'"),
        (_plain, {"prority": 5}, "a task has no option prority"),
        (_plain, {"max_retries": 3}, "a task has no option max_retries; write retry = Retry"),
        (_plain, {"priority": 10}, "priority 10 is not within 0 to 9"),
        (_plain, {"group": 5}, "_plain: group 5 is neither a text nor a Key"),
        (_plain, {"group": "{number}"}, "_plain.group: group '{number}' is a text"),
        (_plain, {"tags": {"shop": 1}}, "_plain: the tag shop is no text but a int"),
        (_plain, {"unique_mode": "keep"}, "unique_mode 'keep' is not a UniqueMode"),
        (_plain, {"name": "no name"}, "work_type 'no name' is not a name"),
        (_plain, {"runtime": Runtime.ASYNCIO}, "an asyncio handler must be a coroutine"),
        (WorkItem, {}, "is not a function"),
    ],
)
def test_a_function_that_cannot_be_work_is_refused_where_it_is_defined(
    function: Any, policy: dict[str, Any], said: str
) -> None:
    """The error says what is wrong with it."""
    with pytest.raises(InvalidWork, match=said):
        task(**policy)(function)


def test_a_task_itself_is_not_a_work_item() -> None:
    """The error says how to make one."""
    wrong: Any = greet
    with pytest.raises(InvalidWork, match="Task is not a work item") as caught:
        encode(wrong)
    assert "work(...)" in str(caught.value)


@task
def _pair(number: int) -> tuple[int, str]:
    return number, "one"


@task
async def _late_pair(number: int) -> tuple[int, str]:
    return number, "one"


@pytest.mark.parametrize("of", [_pair, _late_pair])
def test_a_result_is_annotated_as_the_function_is(of: Any) -> None:
    """A job that calls it reads the result by that."""
    assert result_type(of.item.perform) == tuple[int, str]
