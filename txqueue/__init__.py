"""Background jobs for Python, in the PostgreSQL database that you already have.

Enqueue work inside the application's own database transaction; run it on every host with ``twistd
txqueue``.
"""

from typing import TYPE_CHECKING

from txqueue.late_imports import late_imports

if TYPE_CHECKING:
    from txqueue.client.node_link import Membership
    from txqueue.client.queue import WorkQueue
    from txqueue.errors import TxqueueError
    from txqueue.model.directives import (
        Discard,
        Fail,
        FailedAttempt,
        Next,
        Snooze,
        Throttled,
        middleware,
        on_failure,
    )
    from txqueue.model.enqueue_options import EnqueueOptions
    from txqueue.model.job import Attempt, Job, State
    from txqueue.model.job_policy import Priority, Rate, Retry, Runtime, UniqueMode
    from txqueue.model.keys import Key
    from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Exists
    from txqueue.model.work_item import WorkItem
    from txqueue.model.workset_item import ExistingTable, WorksetItem, WorksetStatus
    from txqueue.store.enqueueing.batch import Batch
    from txqueue.store.enqueueing.transaction import Transaction, enqueue
    from txqueue.store.schedules import ScheduleRun, Schedules
    from txqueue.worker.handlers.running_job import Parents, RunningJob
    from txqueue.worker.handlers.step_scopes import StepCursor, StepTransaction
    from txqueue.worker.handlers.task import Task
    from txqueue.worker.handlers.task import task as task
    from txqueue.worker.handlers.thread_job import ThreadJob
    from txqueue.worker.running.workset_runner import RunningPart

__all__ = [
    "Attempt",
    "Batch",
    "CatchUp",
    "Cooldown",
    "Cron",
    "Discard",
    "EnqueueOptions",
    "Every",
    "ExistingTable",
    "Exists",
    "Fail",
    "FailedAttempt",
    "Job",
    "Key",
    "Membership",
    "Next",
    "Parents",
    "Priority",
    "Rate",
    "Retry",
    "RunningJob",
    "RunningPart",
    "Runtime",
    "ScheduleRun",
    "Schedules",
    "Snooze",
    "State",
    "StepCursor",
    "StepTransaction",
    "Task",
    "ThreadJob",
    "Throttled",
    "Transaction",
    "TxqueueError",
    "UniqueMode",
    "WorkItem",
    "WorkQueue",
    "WorksetItem",
    "WorksetStatus",
    "enqueue",
    "middleware",
    "on_failure",
    "task",
]

# Not by `import *`, which would replace Twisted's module of that name.
__all__.remove("task")

if not TYPE_CHECKING:
    # Some import Twisted and the driver, which a process that only enqueues by an adapter does not
    # need, and a command that only reads needs none of them.
    __getattr__ = late_imports(
        __name__,
        {
            "client.node_link": "Membership",
            "client.queue": "WorkQueue",
            "errors": "TxqueueError",
            "model.directives": (
                "Discard Fail FailedAttempt Next Snooze Throttled middleware on_failure"
            ),
            "model.enqueue_options": "EnqueueOptions",
            "model.job": "Attempt Job State",
            "model.job_policy": "Priority Rate Retry Runtime UniqueMode",
            "model.keys": "Key",
            "model.schedule": "CatchUp Cooldown Cron Every Exists",
            "model.work_item": "WorkItem",
            "model.workset_item": "ExistingTable WorksetItem WorksetStatus",
            "store.enqueueing.batch": "Batch",
            "store.enqueueing.transaction": "Transaction enqueue",
            "store.schedules": "ScheduleRun Schedules",
            "worker.handlers.running_job": "Parents RunningJob",
            "worker.handlers.step_scopes": "StepCursor StepTransaction",
            "worker.handlers.task": "Task task",
            "worker.handlers.thread_job": "ThreadJob",
            "worker.running.workset_runner": "RunningPart",
        },
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "task"})
