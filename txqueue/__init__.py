"""txqueue: a distributed work queue for Twisted, on PostgreSQL.

Enqueue work inside the application's own database transaction; run it on every host with ``twistd
txqueue``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from txqueue.errors import TxqueueError
from txqueue.model.directives import Discard, Fail, Next, Snooze
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.failed_attempt import FailedAttempt, on_failure
from txqueue.model.job import Attempt, Job, State
from txqueue.model.keys import Key
from txqueue.model.middleware import middleware
from txqueue.model.retry import Retry
from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Exists
from txqueue.model.work_item import Priority, Runtime, UniqueMode, WorkItem
from txqueue.model.workset_item import ExistingTable, WorksetItem, WorksetStatus
from txqueue.worker.handlers.task import Task, task

if TYPE_CHECKING:
    from txqueue.client.node_link import Membership
    from txqueue.client.queue import WorkQueue
    from txqueue.store.enqueueing.batch import Batch
    from txqueue.store.enqueueing.transaction import Transaction, enqueue
    from txqueue.store.schedules import ScheduleRun, Schedules
    from txqueue.worker.handlers.running_job import Parents, RunningJob
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
    "Retry",
    "RunningJob",
    "RunningPart",
    "Runtime",
    "ScheduleRun",
    "Schedules",
    "Snooze",
    "State",
    "Task",
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

# These import Twisted and the driver. A process that only enqueues by an adapter needs neither.
_HOMES = {
    "Membership": "txqueue.client.node_link",
    "WorkQueue": "txqueue.client.queue",
    "Batch": "txqueue.store.enqueueing.batch",
    "ScheduleRun": "txqueue.store.schedules",
    "Schedules": "txqueue.store.schedules",
    "Transaction": "txqueue.store.enqueueing.transaction",
    "enqueue": "txqueue.store.enqueueing.transaction",
    "Parents": "txqueue.worker.handlers.running_job",
    "RunningJob": "txqueue.worker.handlers.running_job",
    "RunningPart": "txqueue.worker.running.workset_runner",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any name for one of this module.
    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
