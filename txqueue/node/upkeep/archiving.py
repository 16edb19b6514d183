"""Archives history in a separate process, as Parquet takes CPU and a large library."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from txqueue.node.state.collaborators import Process, Spawner
from txqueue.node.state.periodic import Periodic
from txqueue.store.node.functions import StoredFunctions

__all__ = ["Archiving"]

EVERY = 3600.0
AFTER_FAILURE = 600.0
LONGEST_SAID = 1000


class Archiving(Periodic):
    """Archives days of history past retention, if the queue has an archive.

    All nodes check; one node at a time archives.

    Args:
        reactor: Times the checks, and starts the process.
        functions: The stored functions.
        dsn: The DSN of the database.
        schema: The name of the schema.
    """

    name = "archiving"

    def __init__(self, reactor: Spawner, functions: StoredFunctions, dsn: str, schema: str) -> None:
        super().__init__(reactor)
        self._reactor = reactor
        self._functions = functions
        self._told = {"TXQUEUE_DSN": dsn, "TXQUEUE_SCHEMA": schema}
        self._process: Process | None = None

    async def step(self) -> float | None:
        """Archive the days that are due."""
        if not await self._functions.archive_due():
            return EVERY
        status, output = await self._run()
        if status == 0:
            self.log.info("{said}", said=output or "another node is archiving")
            return EVERY
        if self.running:
            self.log.warn("history was not archived, and so was not dropped: {said}", said=output)
        return AFTER_FAILURE

    def stopService(self) -> Deferred[None] | None:
        """Stop, and end the archiving process; days not verified yet stay in the database."""
        stopping = super().stopService()
        if self._process is not None:
            with suppress(ProcessExitedAlready):
                self._process.signalProcess("TERM")
        return stopping

    async def _run(self) -> tuple[int | None, str]:
        process = _Output()
        self._process = self._reactor.spawnProcess(
            process,
            sys.executable,
            [sys.executable, "-m", "txqueue.archive"],
            env={**os.environ, **self._told},
        )
        try:
            return await process.ended
        finally:
            self._process = None


class _Output(ProcessProtocol):
    """Keeps the end of a process's output."""

    def __init__(self) -> None:
        self.ended: Deferred[tuple[int | None, str]] = Deferred()
        self._output = b""

    def outReceived(self, data: bytes) -> None:
        """Keep the last bytes of the output."""
        self._output = (self._output + data)[-LONGEST_SAID:]

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        """Fire `ended` with the exit status of the process and the end of its output."""
        text = " ".join(self._output.decode(errors="replace").split())
        self.ended.callback((getattr(reason.value, "exitCode", None), text))
