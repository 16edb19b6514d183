"""An application with secret payloads."""

import os
from pathlib import Path
from typing import Any

from attrs import define

from txqueue import Retry, WorkItem

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()


@define
class Plain(WorkItem):
    """Work with nothing to hide."""

    async def perform(self, job: Any) -> str:
        """Return something."""
        return "plain"


@define
class Charge(WorkItem):
    """Work that is encrypted at rest; it returns what it was given."""

    encrypted = True

    card: str

    async def perform(self, job: Any) -> dict[str, str]:
        """Return it."""
        return {"charged": self.card}


@define
class Strict(WorkItem):
    """Work of which payloads are sent that do not fit."""

    retry = Retry(attempts=1)

    number: int

    async def perform(self, job: Any) -> None:
        """Do nothing."""
