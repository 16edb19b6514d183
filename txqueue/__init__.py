"""Background jobs for Python, in the PostgreSQL database that you already have.

Enqueue work inside the application's own database transaction; run it on every host with ``twistd
txqueue``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

# Each is imported when it is used. Some import Twisted and the driver, which a process that only
# enqueues by an adapter does not need, and a command that only reads needs none of them.
_HOMES = {
    "Attempt": "txqueue.model.job",
    "CatchUp": "txqueue.model.schedule",
    "Cooldown": "txqueue.model.schedule",
    "Cron": "txqueue.model.schedule",
    "Discard": "txqueue.model.directives",
    "EnqueueOptions": "txqueue.model.enqueue_options",
    "Every": "txqueue.model.schedule",
    "ExistingTable": "txqueue.model.workset_item",
    "Exists": "txqueue.model.schedule",
    "Fail": "txqueue.model.directives",
    "FailedAttempt": "txqueue.model.directives",
    "Job": "txqueue.model.job",
    "Key": "txqueue.model.keys",
    "Next": "txqueue.model.directives",
    "Priority": "txqueue.model.job_policy",
    "Rate": "txqueue.model.job_policy",
    "Retry": "txqueue.model.job_policy",
    "Runtime": "txqueue.model.job_policy",
    "Snooze": "txqueue.model.directives",
    "State": "txqueue.model.job",
    "Task": "txqueue.worker.handlers.task",
    "Throttled": "txqueue.model.directives",
    "TxqueueError": "txqueue.errors",
    "UniqueMode": "txqueue.model.job_policy",
    "WorkItem": "txqueue.model.work_item",
    "WorksetItem": "txqueue.model.workset_item",
    "WorksetStatus": "txqueue.model.workset_item",
    "middleware": "txqueue.model.directives",
    "on_failure": "txqueue.model.directives",
    "task": "txqueue.worker.handlers.task",
    "Membership": "txqueue.client.node_link",
    "WorkQueue": "txqueue.client.queue",
    "Batch": "txqueue.store.enqueueing.batch",
    "ScheduleRun": "txqueue.store.schedules",
    "Schedules": "txqueue.store.schedules",
    "Transaction": "txqueue.store.enqueueing.transaction",
    "enqueue": "txqueue.store.enqueueing.transaction",
    "Parents": "txqueue.worker.handlers.running_job",
    "RunningJob": "txqueue.worker.handlers.running_job",
    "ThreadJob": "txqueue.worker.handlers.thread_job",
    "RunningPart": "txqueue.worker.running.workset_runner",
    "StepCursor": "txqueue.worker.handlers.step_scopes",
    "StepTransaction": "txqueue.worker.handlers.step_scopes",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any name for one of this module.
    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
