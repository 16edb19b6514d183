"""Tasks of every kind."""

import asyncio
import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.dispatch import receiver

from txqueue import Key, Retry
from txqueue.django import policy

FAMILY = "django.tasks" if find_spec("django.tasks") is not None else "django_tasks"
task: Any = import_module(FAMILY).task
signals: Any = import_module(f"{FAMILY}.signals")
QUICK = Retry(attempts=2, first=0.01, jitter=0.0)


class OutOfTea(Exception):
    """There is none."""


@task
def add(left: int, right: int = 0) -> int:
    """Return a sum."""
    return left + right


@task(queue_name="mail", priority=10)
@policy(group=Key("user:{user}"), unique=Key("{user}:{language}"), weight=2)
def send(user: int, *, language: str = "en") -> list[Any]:
    """Return the arguments."""
    return [user, language]


@task
@policy(unique=Key("{order.number}"))
def keyed_within(order: Any) -> None:
    """Have a key of a part of an argument."""


@task
def reports_transaction() -> list[bool]:
    """Return whether the connection is in a transaction, and whether it is the main thread's."""
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    on_main_thread = threading.current_thread() is threading.main_thread()
    return [connection.in_atomic_block, on_main_thread]


@task(takes_context=True)
@policy(retry=QUICK)
def brews(context: Any, kind: str) -> Any:
    """Fail at the first attempt."""
    context.job.progress(1, 2)
    if context.attempt == 1:
        raise OutOfTea(kind)
    return [kind, context.attempt, context.task_result.id]


@task
def fails() -> None:
    """Fail."""
    raise OutOfTea("none")


@task
async def fails_later() -> None:
    """Fail in a coroutine."""
    await asyncio.sleep(0)
    raise OutOfTea("none")


@task
def leaves() -> None:
    """End as a script does."""
    raise SystemExit("closed")


@task
def returns_a_function() -> Any:
    """Return what is no JSON."""
    return lambda: True


@task
def takes_any(*args: Any, **kwargs: Any) -> None:
    """Return nothing."""


@task
async def takes_any_later(*args: Any, **kwargs: Any) -> None:
    """Return nothing, in a coroutine."""


@task
@policy(timeout=0.2)
async def waits() -> None:
    """Go on for longer than the timeout."""
    await asyncio.sleep(60)


@task
@policy(timeout=0.2)
async def queries_for_long(lock: int) -> None:
    """Wait in the database for longer than the timeout."""

    def asked() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_lock(%s)", (lock,))

    await sync_to_async(asked)()


@task(takes_context=True)
async def reads(context: Any, number: int) -> list[Any]:
    """Ask the database from a coroutine."""

    def asked() -> Any:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("select %s + 1", (number,))
            return cursor.fetchone()[0]

    return [await sync_to_async(asked)(), context.attempt]


@task(takes_context=True)
def steeps(context: Any, number: int) -> list[Any]:
    """Wait for a person after a step."""
    steeped = context.job.step("steep", number.__add__, 1)
    context.job.sleep("cool off", 60)
    return [steeped, context.job.wait_for("tasted")]


@task(takes_context=True)
async def steeps_long(context: Any, number: int) -> list[Any]:
    """Do the same in a coroutine."""

    async def steep() -> int:
        await asyncio.sleep(0)
        return number

    steeped = await context.job.step("steep", steep)
    async with context.job.step_transaction("drip") as step:
        if not step.is_done:
            step.result = (await step.txn.execute("select %s + 1", (steeped,)))[0][0]
    async for drop in (cursor := context.job.cursor("drops", start=1)):
        cursor.following = drop + 1 if drop < 3 else None
    await context.job.sleep("cool off", 60)
    return [step.result, await context.job.wait_for("tasted")]


@task
async def counts() -> Any:
    """Count the jobs that Django's connection sees."""

    def asked() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from txqueue.job")
            return cursor.fetchone()[0]

    return await sync_to_async(asked)()


@receiver([signals.task_started, signals.task_finished])
def note(sender: type, signal: Any, task_result: Any, **rest: Any) -> None:
    """Note the signals of a worker in its log."""
    name = "started" if signal is signals.task_started else "finished"
    classes = [each.exception_class_path.rpartition(".")[2] for each in task_result.errors]
    text = f"signal {name} {sender.__name__} {task_result.id} {task_result.status}"
    print(text, ",".join(classes), flush=True)
