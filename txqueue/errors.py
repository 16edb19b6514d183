"""The errors that txqueue raises. Each message says what is wrong, why, and how to fix it."""

__all__ = [
    "AdminRefused",
    "ArchiveUnavailable",
    "ConfigurationError",
    "DatabaseUnavailable",
    "Duplicate",
    "EmbeddedUnavailable",
    "InvalidSchedule",
    "InvalidWork",
    "JobFailed",
    "JobNotFound",
    "KeyUnavailable",
    "NodeUnavailable",
    "NotPermitted",
    "QueueFull",
    "Refused",
    "SchemaMismatch",
    "Suspended",
    "TimedOut",
    "TokenLost",
    "TransactionMisused",
    "TxqueueError",
    "UnknownWorkType",
    "UnreadablePayload",
    "WaitTimeout",
]


class TxqueueError(Exception):
    """Base class of all errors of this package.

    Args:
        what: One line that says what went wrong and why.
        remedy: One line that says how to fix it.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class ConfigurationError(TxqueueError):
    """An option, an environment variable or the configuration file is not valid."""


class DatabaseUnavailable(TxqueueError):
    """The database does not answer, refuses the connection, or has dropped it."""


class SchemaMismatch(TxqueueError):
    """The database's schema is missing, or older or newer than this version of txqueue needs."""


class NodeUnavailable(TxqueueError):
    """No node answers at an endpoint."""


class AdminRefused(TxqueueError):
    """An operator's request is refused, before it is sent or by the node; nothing has changed."""


class ArchiveUnavailable(TxqueueError):
    """The archive cannot be read or written, or its files differ from what was written."""


class EmbeddedUnavailable(TxqueueError):
    """An embedded PostgreSQL server cannot be started on this machine."""


class InvalidWork(TxqueueError):
    """A work item class, its policy or an instance of it is not valid."""


class UnreadablePayload(InvalidWork):
    """A payload does not fit its work item class; another version of the class may read it."""


class InvalidSchedule(TxqueueError):
    """The times, the name or the condition of a schedule are not valid."""


class KeyUnavailable(TxqueueError):
    """This process has no encryption key, or none of its keys decrypts the data."""


class UnknownWorkType(TxqueueError):
    """This process has not imported a work item class of that name."""


class Refused(TxqueueError):
    """The database refused a job or another request; the call has written nothing."""


class NotPermitted(Refused):
    """The database role lacks a right."""


class QueueFull(Refused):
    """A queue has reached its backlog limit, or a workset its bound; more can be enqueued later."""


class Duplicate(Refused):
    """The new job is refused: another unended job of the work type holds its unique key."""


class JobNotFound(TxqueueError):
    """No job has that number, or its history has been dropped."""


class JobFailed(TxqueueError):
    """The awaited job has failed or was cancelled.

    Attributes:
        is_kept: Whether `RunningJob.call` has kept that, so that each retry would raise it again.
    """

    is_kept = False


class WaitTimeout(TxqueueError):
    """The awaited job did not end in time; the job itself is not affected."""


class TimedOut(TxqueueError):
    """The signal that a job waited for did not come in time."""


class Suspended(BaseException):
    """Ends a run whose job waits for a signal, a moment or a child; it must not be swallowed."""


class Hung(TxqueueError):
    """A handler did not call ``beat()`` or ``progress()`` within its declared heartbeat."""


class TransactionMisused(TxqueueError):
    """A transaction was used after its end, by two callers at once, or was ended by a statement."""


class TokenLost(TxqueueError):
    """The job has a new assignment since this run began; the run's transaction is rolled back."""
