"""What Django asks of any backend of its tasks, asked of this one."""

import copyreg
import logging
import pickle
from dataclasses import asdict
from datetime import timedelta
from importlib import import_module
from types import MethodType
from typing import Any, Final

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.test import override_settings

from tests.django_shop.configuration import set_up_django
from txqueue.django import TxqueueBackend
from txqueue.django.framework import (
    FAMILY,
    InvalidTask,
    Task,
    signals,
    task_backends,
)
from txqueue.testing import drain

pytestmark = pytest.mark.django

BACKEND: Final = "txqueue.django.TxqueueBackend"
task: Any = import_module(FAMILY).task


@pytest.fixture
def tasks(shop_database: str) -> Any:
    """The tasks of the project, over the database, with no job in it."""
    set_up_django(shop_database)
    return import_module("tests.django_shop.tasks")


def ran(declared: Any, *args: Any, **kwargs: Any) -> Any:
    """Enqueue a task, run it here as a node does, and return its new result."""
    with transaction.atomic():
        result = declared.enqueue(*args, **kwargs)
        drain(raise_errors=False)
        result.refresh()
    return result


def shown(result: Any) -> dict[str, Any]:
    """What a result shows, without the time of the enqueue, which the database's clock has."""
    return {name: value for name, value in asdict(result).items() if name != "enqueued_at"}


def only_queue(name: str) -> Any:
    """Settings whose only backend has one queue."""
    return override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [name]}})


def test_a_backend_is_that_of_its_alias(tasks: Any) -> None:
    """With the alias and the options of its settings."""
    options = {"schema": "jobs"}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": options}}):
        backend = tasks.add.get_backend()
        assert backend is task_backends["default"]
        assert (backend.alias, backend.options) == ("default", options)


@pytest.mark.parametrize("name", ["takes_any", "takes_any_later"])
def test_a_task_ends_with_its_times(tasks: Any, name: str) -> None:
    """Whether it is a function or a coroutine, and whatever it returns."""
    declared = getattr(tasks, name)
    result = ran(declared, 1, two=3)
    assert (result.status, result.is_finished, result.return_value) == ("SUCCESSFUL", True, None)
    assert (result.task, result.args, result.kwargs) == (declared, [1], {"two": 3})
    assert (result.attempts, result.errors) == (1, [])
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("fails", "OutOfTea: none"),
        ("fails_later", "OutOfTea: none"),
        ("leaves", "SystemExit: closed"),
        ("returns_a_function", "TypeError: Unsupported type: <class 'function'>"),
    ],
)
def test_a_failure_has_its_error(tasks: Any, name: str, error: str) -> None:
    """The class of the exception, and its traceback, which ends with the exception."""
    result = ran(getattr(tasks, name))
    assert (result.status, result.is_finished, result.attempts) == ("FAILED", True, 1)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    [failure] = result.errors
    assert failure.exception_class.__name__ == error.partition(":")[0]
    assert "Traceback (most recent call last):\n" in failure.traceback
    assert "thread_handler" not in failure.traceback
    assert failure.traceback.endswith(error)
    assert result.enqueued_at <= result.started_at <= result.finished_at


def test_a_result_is_the_same_when_it_is_read(tasks: Any) -> None:
    """By the task or by its backend, waiting or not, and in whatever way it is refreshed."""
    backend, args = task_backends["default"], [(1, 2), {"a": None}]
    result = backend.enqueue(tasks.takes_any, args, {"b": 1.5})
    assert result.args == [[1, 2], {"a": None}]
    others = [backend.get_result(result.id), tasks.takes_any.get_result(result.id)]
    others.append(async_to_sync(backend.aget_result)(result.id))
    others.append(async_to_sync(tasks.takes_any.aget_result)(result.id))
    assert [shown(each) for each in others] == [shown(result)] * 4
    result.refresh()
    async_to_sync(result.arefresh)()
    assert others == [result] * 4


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, float("nan"), [float("inf")], "a\0b"])
def test_an_argument_that_would_change_is_refused(tasks: Any, value: Any) -> None:
    """Django lets it through; the worker would get another one."""
    with pytest.raises(InvalidTask, match=r"\$\.args\[0\]"):
        tasks.takes_any.enqueue(value)
    assert tasks.counts.call() == 0


def test_a_task_is_checked_when_it_is_enqueued(tasks: Any) -> None:
    """Its queue may be gone since it was made."""
    changed = tasks.add.using(queue_name="mail")
    with only_queue("other"):
        for enqueue in (changed.enqueue, async_to_sync(changed.aenqueue)):
            with pytest.raises(InvalidTask, match="Queue 'mail' is not valid for backend"):
                enqueue(1)


def test_a_function_that_is_no_task(tasks: Any) -> None:
    """One that is built in, a method, or one without the context that it shall take."""
    for function in (any, TxqueueBackend("x", {}).check):
        with pytest.raises(InvalidTask, match="module level"):
            task(function)
    with pytest.raises(InvalidTask, match="first argument of 'context'"):
        task(takes_context=True)(tasks.add.func)


@pytest.mark.skipif(not hasattr(Task, "_reconstruct"), reason="tasks of Django before 6.1")
def test_tasks_and_results_are_pickled(tasks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what `using` has changed, and with errors."""
    # Django pickles a task by a class method, which no process can once twisted.persisted.styles
    # has been imported, as by twistd.
    monkeypatch.delitem(copyreg.dispatch_table, MethodType, raising=False)
    changed = tasks.fails.using(priority=7, queue_name="mail")
    assert pickle.loads(pickle.dumps(changed)) == changed
    for result in (changed.enqueue(), ran(changed)):
        assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("name", ["takes_any", "takes_any_later"])
def test_a_task_is_logged(tasks: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """When it is enqueued, started and finished, with all that Django logs of it."""
    with caplog.at_level(logging.DEBUG, FAMILY):
        result = ran(getattr(tasks, name))
    said = [each.getMessage() for each in caplog.records if each.name == FAMILY]
    assert len(said) == 3
    for text, part in zip(said, ("enqueued", "state=RUNNING", "state=SUCCESSFUL"), strict=True):
        assert part in text
        assert result.id in text
        assert "None" not in text


@pytest.mark.parametrize("name", ["fails", "fails_later"])
def test_a_failure_is_logged(tasks: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback, also that of a coroutine."""
    with caplog.at_level(logging.ERROR, FAMILY):
        result = ran(getattr(tasks, name))
    [record] = [each for each in caplog.records if each.name == FAMILY]
    assert "state=FAILED" in record.getMessage()
    assert result.id in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is tasks.OutOfTea


@pytest.mark.parametrize("name", ["takes_any", "takes_any_later"])
def test_a_receiver_may_be_a_coroutine(tasks: Any, name: str) -> None:
    """Which reads the database in a thread, as a task does."""
    seen = []

    async def receive(task_result: Any, **rest: Any) -> None:
        stored = await sync_to_async(tasks.counts.get_backend().get_result)(task_result.id)
        seen.append((task_result.status, stored.id == task_result.id))

    sent = (signals.task_enqueued, signals.task_started, signals.task_finished)
    for signal in sent:
        signal.connect(receive)
    try:
        ran(getattr(tasks, name))
    finally:
        for signal in sent:
            signal.disconnect(receive)
    assert seen == [("READY", True), ("RUNNING", True), ("SUCCESSFUL", True)]


@pytest.mark.parametrize("name", ["steeps", "steeps_long"])
def test_a_task_has_steps(tasks: Any, name: str) -> None:
    """It goes on after a wait, at which it is not finished; in a test it waits for no time."""
    finished: list[str] = []

    def receive(task_result: Any, **rest: Any) -> None:
        finished.append(task_result.status)

    signals.task_finished.connect(receive)
    try:
        with transaction.atomic():
            result = getattr(tasks, name).enqueue(6)
            runs = drain(until=timedelta(minutes=2))
            assert [dict(run.waits) for run in runs] == [
                {"cool off": "sleep"},
                {"tasted": "signal"},
            ]
            assert finished == []
            with connection.cursor() as cursor:
                cursor.execute("select txqueue.signal(%s, 'tasted', '\"good\"')", (result.id,))
            drain([int(result.id)], until=timedelta(minutes=2))
            result.refresh()
    finally:
        signals.task_finished.disconnect(receive)
    assert result.return_value == [7, "good"]
    assert finished == ["SUCCESSFUL"]
