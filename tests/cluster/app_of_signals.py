"""An application with a job that runs until the test lets it end."""

import os
from pathlib import Path
from typing import Any

from attrs import define

from tests.cluster.app import Noop
from tests.waiting import eventually
from txqueue import WorkItem

__all__ = ["Noop", "UntilTold"]

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()


@define
class UntilTold(WorkItem):
    """Runs until a file is there."""

    async def perform(self, job: Any) -> None:
        """Say that it runs, and wait."""
        Path(f"runs-{job.id}").touch()
        await eventually(Path("told").exists, 3600.0)
