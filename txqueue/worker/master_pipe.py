"""The worker's end of the pipe to its master."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from txqueue.wire.pipe import Responders
from txqueue.wire.prompt_pipe import PromptPipe

__all__ = ["MasterPipe"]


class MasterPipe(PromptPipe):
    """A prompt pipe that tells its owner which messages are read together.

    Args:
        responders: The handler of each command.
        lost: Called once, when the connection is closed.
        reading: Returns the context in which to process the messages of one read.
    """

    def __init__(
        self,
        responders: Responders,
        lost: Callable[[], None],
        reading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(responders, lost)
        self._reading = reading

    def dataReceived(self, data: bytes) -> None:
        """Process the messages that the received bytes complete."""
        with self._reading():
            super().dataReceived(data)
