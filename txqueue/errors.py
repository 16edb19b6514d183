"""Every error txqueue raises: each says what is wrong, why, and how to mend it."""

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
    "QueueFull",
    "Refused",
    "SchemaMismatch",
    "TokenLost",
    "TransactionMisused",
    "TxqueueError",
    "UnknownWorkType",
    "WaitTimeout",
]


class TxqueueError(Exception):
    """Base of all errors of this package.

    Args:
        what: One line that says what went wrong and why.
        remedy: One line that says how to mend it.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class ConfigurationError(TxqueueError):
    """An option, environment variable or configuration file is wrong."""


class DatabaseUnavailable(TxqueueError):
    """The database does not answer, refuses the connection, or dropped it."""


class SchemaMismatch(TxqueueError):
    """The schema in the database is missing, older or newer than this version needs."""


class NodeUnavailable(TxqueueError):
    """No node answers at an endpoint."""


class AdminRefused(TxqueueError):
    """A node refuses what an operator asks of it; nothing was changed."""


class ArchiveUnavailable(TxqueueError):
    """The archive of history cannot be written or read, or does not hold what was written."""


class EmbeddedUnavailable(TxqueueError):
    """The embedded PostgreSQL server cannot be started here."""


class InvalidWork(TxqueueError):
    """A work item class, its policy or one of its instances is not valid."""


class InvalidSchedule(TxqueueError):
    """When recurring work is due, or its name or condition, is not valid."""


class KeyUnavailable(TxqueueError):
    """This process has no key, or none that opens what is encrypted."""


class UnknownWorkType(TxqueueError):
    """No work item class of that name is known in this process."""


class Refused(TxqueueError):
    """The database refused a job; nothing of the call was written."""


class QueueFull(Refused):
    """So many jobs wait in the queue as its limit allows; the same job may be taken later."""


class Duplicate(Refused):
    """Another job of the type that has not ended has the same unique key."""


class JobNotFound(TxqueueError):
    """No job has that number, or its history is past retention."""


class JobFailed(TxqueueError):
    """The awaited job ended as failed or cancelled."""


class WaitTimeout(TxqueueError):
    """The awaited job did not end in time; it is not affected."""


class Hung(TxqueueError):
    """A handler that declares a heartbeat was silent for longer."""


class TransactionMisused(TxqueueError):
    """A transaction was used after its end, by two callers at a time, or ended by a statement."""


class TokenLost(TxqueueError):
    """The job has been assigned elsewhere since; its transaction is rolled back."""
