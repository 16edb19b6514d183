"""The backend of Django's tasks, as its documentation describes one, without a node."""

import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final

import pytest
from django.db import connections, transaction
from django.test import override_settings

from tests.django_shop.configuration import set_up_django
from txqueue import Every, Key, Retry
from txqueue.django import (
    AttemptFailed,
    OtherTransaction,
    TaskCancelled,
    TxqueueBackend,
    policy,
    work,
)
from txqueue.django.framework import (
    FAMILY,
    InvalidTask,
    TaskResultDoesNotExist,
    task_backends,
)
from txqueue.django.items import TaskWork, ensure_item, job_priority
from txqueue.errors import Duplicate, InvalidWork
from txqueue.model.payload_schema import payload_schema
from txqueue.model.schema_check import find_misfit
from txqueue.model.work_item import known_work_types
from txqueue.testing import perform

pytestmark = pytest.mark.django

TASKS: Final = "tests.django_shop.tasks"
task: Any = import_module(FAMILY).task
TaskResultMismatch: Any = import_module(f"{FAMILY}.exceptions").TaskResultMismatch


@pytest.fixture
def dsn(shop_database: str) -> str:
    """The DSN of the database, with no job in it."""
    return shop_database


@pytest.fixture(autouse=True)
def tasks(dsn: str) -> Any:
    """The tasks of the project, over the database."""
    set_up_django(dsn)
    return import_module(TASKS)


def row(result: Any, columns: str) -> tuple[Any, ...]:
    """Return columns of a task's job."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"select {columns} from txqueue.job where job_id = %s", [result.id])
        return tuple(cursor.fetchone())


def enqueued() -> int:
    """Return how many jobs there are."""
    with connections["default"].cursor() as cursor:
        cursor.execute("select count(*) from txqueue.job")
        return int(cursor.fetchone()[0])


def test_the_backend_supports_everything(tasks: Any) -> None:
    """Of what Django asks about a backend."""
    backend = task_backends["default"]
    assert isinstance(backend, TxqueueBackend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert list(backend.check()) == []


def test_a_new_result_is_ready(tasks: Any) -> None:
    """It has the arguments, an id, and nothing of a run; the same when read again."""
    result = tasks.add.enqueue(1, right=2)
    for each in (result, tasks.add.get_result(result.id)):
        assert (each.status, each.args, each.kwargs) == ("READY", [1], {"right": 2})
        assert (each.task, each.backend, each.errors) == (tasks.add, "default", [])
        assert (each.started_at, each.finished_at, each.last_attempted_at) == (None,) * 3
        assert (each.attempts, each.worker_ids, each.is_finished) == (0, [], False)
        assert abs(each.enqueued_at - datetime.now(UTC)) < timedelta(minutes=1)
        with pytest.raises(ValueError, match="Task has not finished yet"):
            _ = each.return_value


def test_the_job_is_one_of_the_task_s_type(tasks: Any) -> None:
    """With its queue, priority and policy, so that operators see each task apart."""
    assert TaskWork not in known_work_types()
    result = tasks.send.enqueue(7, language="de")
    columns = 'work_type, queue, priority, weight, "group", payload::text'
    *values, payload = row(result, columns)
    assert values == [f"{TASKS}.send", "mail", 5, 2, "user:7"]
    assert json.loads(payload) == {"args": [7], "kwargs": {"language": "de"}}


def test_what_using_changes_is_kept(tasks: Any) -> None:
    """The priority, too, although a job has ten of them only."""
    moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    changed = tasks.add.using(priority=-7, queue_name="mail", run_after=moment, backend="second")
    result = changed.enqueue(1)
    assert row(result, "queue, priority, not_before") == ("mail", 3, moment)
    read = task_backends["default"].get_result(result.id)
    assert read.task == changed
    assert read.backend == "second"


def test_a_result_outlives_settings(tasks: Any) -> None:
    """Whose queue and backend are gone since."""
    result = tasks.add.using(backend="second").using(queue_name="any").enqueue(1)
    backend = {"BACKEND": "txqueue.django.TxqueueBackend"}
    with override_settings(TASKS={"default": backend}):
        assert task_backends["default"].get_result(result.id).task == tasks.add


def test_priorities_keep_their_order() -> None:
    """From the lowest of all, by the default one, to the highest."""
    levels = [job_priority(priority) for priority in range(-100, 101)]
    assert levels == sorted(levels)
    assert set(levels) == set(range(10))
    assert [priority for priority in range(-100, 101) if job_priority(priority) == 4] == [0]


def test_a_moment_without_a_zone_is_one_of_the_settings(tasks: Any) -> None:
    """If the settings use no time zones; otherwise Django refuses it."""
    moment = datetime(2031, 5, 6, 7, 8, 9)
    with pytest.raises(InvalidTask, match="aware"):
        tasks.add.using(run_after=moment)
    with override_settings(USE_TZ=False):
        result = tasks.add.using(run_after=moment).enqueue(1)
    assert row(result, "not_before") == (datetime(2031, 5, 6, 5, 8, 9, tzinfo=UTC),)


def test_a_block_takes_its_tasks_back(tasks: Any) -> None:
    """There is no need for `on_commit`."""
    with transaction.atomic():
        tasks.add.enqueue(1)
        transaction.set_rollback(True)
    assert enqueued() == 0
    with transaction.atomic():
        tasks.add.enqueue(1)
    assert enqueued() == 1


def test_a_block_of_another_database_is_warned_of(tasks: Any) -> None:
    """Its rollback would not take the task back."""
    with (
        pytest.warns(OtherTransaction, match="atomic\\(using='lite'\\)"),
        transaction.atomic("lite"),
    ):
        tasks.add.enqueue(1)
    with transaction.atomic("lite"), transaction.atomic():
        tasks.add.enqueue(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((object(),), "Unsupported type"),
        ((), "missing a required argument: 'left'"),
        ((1, 2, 3), "too many positional arguments"),
    ],
)
def test_what_the_function_does_not_take_is_refused(
    tasks: Any, arguments: tuple[Any, ...], message: str
) -> None:
    """Before anything is enqueued."""
    with pytest.raises(TypeError, match=message):
        tasks.add.enqueue(*arguments)
    assert enqueued() == 0


@pytest.mark.parametrize(
    ("payload", "misfit"),
    [
        ({"args": [1, 2, 3]}, "invalid value (maxItems 2) @ $.args"),
        ({"args": []}, "fits no type @ $"),
        ({}, "fits no type @ $"),
        ({"args": [1]}, None),
        ({"kwargs": {"left": 1}}, None),
    ],
)
def test_another_payload_must_have_the_arguments_of_the_function(
    tasks: Any, payload: dict[str, Any], misfit: str | None
) -> None:
    """As operators may edit it where the function is not there."""
    assert find_misfit(payload_schema(ensure_item(tasks.add)) or {}, payload) == misfit


@pytest.mark.parametrize("result_id", ["", "x", "0", "123", "9" * 30, None, "1.5"])
def test_a_result_that_there_is_not(tasks: Any, result_id: Any) -> None:
    """Whatever its id is."""
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(result_id)


@pytest.mark.parametrize("spelling", ["0_{}", " {} ", "+{}"])
def test_an_id_is_spelled_in_one_way(tasks: Any, spelling: str) -> None:
    """Python's other spellings of a number are no id of the task."""
    result = tasks.add.enqueue(1)
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(spelling.format(result.id))


def test_a_result_of_another_task(tasks: Any) -> None:
    """Is none of this one, and a job of other work is none of a task."""
    result = tasks.add.enqueue(1)
    with pytest.raises(TaskResultMismatch):
        tasks.fails.get_result(result.id)
    with connections["default"].cursor() as cursor:
        cursor.execute("select txqueue.enqueue('no.such', '{}')")
        [number] = cursor.fetchone()
    with pytest.raises(TaskResultDoesNotExist, match="not of a task"):
        tasks.add.get_result(str(number))


def test_a_cancelled_task_is_a_failure(tasks: Any, dsn: str) -> None:
    """Whose class and text say that it was cancelled."""
    result = tasks.add.enqueue(1)
    with connections["default"].cursor() as cursor:
        cursor.execute("select txqueue.cancel(array[%s]::bigint[], 'Zoë')", [int(result.id)])
    result.refresh()
    [error] = result.errors
    assert (result.status, error.exception_class) == ("FAILED", TaskCancelled)
    assert "Zoë" in error.traceback


def test_sql_enqueues_a_task(tasks: Any) -> None:
    """By its name and arguments; what they leave out is what the task declares."""
    with connections["default"].cursor() as cursor:
        cursor.execute("select txqueue.enqueue(%s, %s)", [f"{TASKS}.add", '{"args": [3]}'])
        [number] = cursor.fetchone()
    result = tasks.add.get_result(str(number))
    assert (result.args, result.kwargs, result.task) == ([3], {}, tasks.add)


def test_a_unique_key_returns_the_task_that_there_is(tasks: Any) -> None:
    """It is not enqueued again; other keys are."""
    first, second = tasks.send.enqueue(7), tasks.send.enqueue(7)
    assert first.id == second.id
    assert tasks.send.enqueue(8).id != first.id


def test_a_key_that_the_arguments_lack_is_refused(tasks: Any) -> None:
    """By Django's error for a task that cannot be enqueued."""
    with pytest.raises(InvalidTask, match=r"Key\('\{order.number\}'\), cannot be computed"):
        tasks.keyed_within.enqueue(7)
    assert enqueued() == 0


def test_a_policy_is_checked_where_it_is_written(tasks: Any) -> None:
    """Whatever the backend is."""
    with pytest.raises(InvalidWork, match="no option queue"):
        policy(queue="mail")  # type: ignore[call-arg]
    with pytest.raises(InvalidWork, match=r"unique '{left}' is a text"):
        policy(unique="{left}")(tasks.add.func)
    with pytest.raises(InvalidWork, match="names no parameter: user"):
        policy(group=Key("{user}"))(row)
    with pytest.raises(InvalidWork, match="below @task"):
        policy(retry=Retry(2))(tasks.add)


def test_a_schedule_needs_a_task_without_arguments(tasks: Any) -> None:
    """Or with defaults for all of them."""
    with pytest.raises(InvalidTask, match="'left'; give its parameters defaults"):
        task(policy(schedule=Every(60))(needs_left))


def needs_left(left: int) -> None:
    """Need an argument."""


def test_an_error_that_is_not_here_has_a_class(tasks: Any) -> None:
    """One that says so, with the text of the error."""
    result = tasks.add.enqueue(1)
    with connections["default"].cursor() as cursor:
        cursor.execute("update txqueue.job set state = 'failed', finished_at = now()")
        cursor.execute(
            "insert into txqueue.failed_attempt (job_id, attempt, began, at, error, error_class)"
            " values (%s, 1, now(), now(), 'a', 'no.such.Error'),"
            " (%s, 2, now(), now(), 'b', 'builtins.KeyError')",
            [result.id, result.id],
        )
    result.refresh()
    assert result.status == "FAILED"
    assert [each.exception_class for each in result.errors] == [AttemptFailed, KeyError]
    assert [each.traceback for each in result.errors] == ["a", "b"]


def test_a_test_performs_a_task(tasks: Any) -> None:
    """Without a job."""
    assert perform(work(tasks.brews, "green"), attempt=2).result == ["green", 2, "0"]
    assert isinstance(perform(work(tasks.fails)).error, tasks.OutOfTea)


def test_adapters_take_tasks(tasks: Any) -> None:
    """With options that a task has not, and in batches."""
    from txqueue.adapters import django

    number = django.enqueue(work(tasks.add, 1, right=2), tenant="a", unique="one")
    assert tasks.add.get_result(str(number)).kwargs == {"right": 2}
    with pytest.raises(Duplicate):
        django.enqueue(work(tasks.add, 1), unique="one", unique_mode="reject")  # type: ignore[arg-type]


def test_a_type_has_the_task_s_queue_and_priority(tasks: Any) -> None:
    """For those who enqueue it with SQL."""
    cls = ensure_item(tasks.send.using(priority=100))
    assert (cls.queue, cls.priority, cls.retry) == ("mail", 5, Retry(attempts=1))
