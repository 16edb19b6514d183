"""The work types that the deploy guard holds, as logs, ``status`` and ``explain`` say it."""

from __future__ import annotations

from attrs import frozen

from txqueue.model.humanize import argument


@frozen
class HeldType:
    """A work type that is held on a version of the application.

    Attributes:
        work_type: The work type.
        application: The version of the application.
        error: The first line of the last error that held it.
        failed: How many runs had failed so.
        runs: Of how many.
    """

    work_type: str
    application: str
    error: str
    failed: int
    runs: int

    def __str__(self) -> str:
        """Return what is held, and why, in one line."""
        why = f"{self.error} ({self.failed:,} of {self.runs:,})"
        return f"held: {self.work_type} on {self.application}: {why}"

    @property
    def remedy(self) -> str:
        """What ends the hold."""
        return (
            "deploy a version without that failure, or the former one; or let it go on:"
            f" txqueue release {argument(self.work_type)}"
        )
