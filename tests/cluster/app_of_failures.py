"""An application whose work fails in several ways, until the test fixes the cause."""

from pathlib import Path
from typing import Any

from attrs import define

from tests.cluster.app import Noop
from txqueue import FailedAttempt, Retry, WorkItem, on_failure

__all__ = ["Breaks", "Noop"]


@define
class Breaks(WorkItem):
    """Fails until a file is there: one that is fatal at once, others for hours."""

    number: int
    mended_by: str

    retry = Retry(attempts=5, first=3600, jitter=0.0, fatal=(ValueError,))

    async def perform(self, job: Any) -> None:
        """Fail, unless the file is there."""
        if Path(self.mended_by).exists():
            return
        if self.number % 2:
            raise ValueError(f"row {self.number} of 'items' is bad")
        raise ConnectionError(f"no answer after {self.number} s")


@on_failure
def tell(failed: FailedAttempt) -> None:
    """Stand in for an error tracker."""
    print(f"job {failed.job_id} was reported", flush=True)
