"""The work that the played masters of the tests run."""

from typing import Any

from attrs import define

from txqueue import WorkItem

__all__ = ["Tagged"]


@define
class Tagged(WorkItem):
    """Work with tags of its own."""

    work_type = "test.kind"

    team: str = "billing"

    @property
    def tags(self) -> dict[str, str]:
        """Whose it is."""
        return {"team": self.team}

    def perform(self, job: Any) -> None:
        """Do nothing."""
