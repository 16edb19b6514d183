"""txqueue: a distributed work queue for Twisted, on PostgreSQL.

Enqueue work inside the application's own database transaction; run it on every host with ``twistd
txqueue``.
"""

from txqueue.client.queue import WorkQueue
from txqueue.errors import TxqueueError
from txqueue.model.directives import Discard, Fail, Next, Snooze
from txqueue.model.failed_attempt import FailedAttempt, on_failure
from txqueue.model.job import Job, State
from txqueue.model.keys import Key
from txqueue.model.retry import Retry
from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Exists
from txqueue.model.work_item import Priority, Runtime, UniqueMode, WorkItem
from txqueue.model.workset_item import ExistingTable, WorksetItem
from txqueue.store.transaction import Transaction, enqueue
from txqueue.worker.running_job import RunningJob

__all__ = [
    "CatchUp",
    "Cooldown",
    "Cron",
    "Discard",
    "Every",
    "ExistingTable",
    "Exists",
    "Fail",
    "FailedAttempt",
    "Job",
    "Key",
    "Next",
    "Priority",
    "Retry",
    "RunningJob",
    "Runtime",
    "Snooze",
    "State",
    "Transaction",
    "TxqueueError",
    "UniqueMode",
    "WorkItem",
    "WorkQueue",
    "WorksetItem",
    "enqueue",
    "on_failure",
]
