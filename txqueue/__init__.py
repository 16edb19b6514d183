"""txqueue: a distributed work queue for Twisted, on PostgreSQL.

Enqueue work inside the application's own database transaction; run it on every host with ``twistd
txqueue``.
"""

from txqueue.client.node_link import Membership
from txqueue.client.queue import WorkQueue
from txqueue.errors import TxqueueError
from txqueue.model.directives import Discard, Fail, Next, Snooze
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.failed_attempt import FailedAttempt, on_failure
from txqueue.model.job import Attempt, Job, State
from txqueue.model.keys import Key
from txqueue.model.retry import Retry
from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Exists
from txqueue.model.work_item import Priority, Runtime, UniqueMode, WorkItem
from txqueue.model.workset_item import ExistingTable, WorksetItem, WorksetStatus
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.schedules import ScheduleRun, Schedules
from txqueue.store.enqueueing.transaction import Transaction, enqueue
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
    "Transaction",
    "TxqueueError",
    "UniqueMode",
    "WorkItem",
    "WorkQueue",
    "WorksetItem",
    "WorksetStatus",
    "enqueue",
    "on_failure",
]
