"""Reads archived jobs in a process of its own, as Parquet takes CPU and a large library."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorProcess
from twisted.internet.protocol import ProcessProtocol

from txqueue.store.inquiries.jobs import READ_COMMAND, request_text, row_in


@frozen
class ArchiveProcess:
    """Starts a process for each question.

    Args:
        reactor: Starts the processes.
    """

    _reactor: IReactorProcess

    async def job(self, days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
        """Return all columns of an archived job, JSON as text; None if none of the days has it.

        Args:
            days: ``state, day, location`` of each day to search.
            job_id: The job's number.

        Raises:
            ArchiveUnavailable: When the archive cannot be read, or not by this installation.
        """
        if not days:
            return None
        output = _Output(request_text(days, job_id))
        self._reactor.spawnProcess(output, sys.executable, READ_COMMAND, env=dict(os.environ))
        return row_in(await output.ended)


class _Output(ProcessProtocol):
    """Writes a question to a process, and keeps what it prints."""

    def __init__(self, question: bytes) -> None:
        self.ended: Deferred[bytes] = Deferred()
        self._question = question
        self._output: list[bytes] = []
        self._errors: list[bytes] = []

    def connectionMade(self) -> None:
        """Write the question."""
        assert self.transport is not None
        self.transport.write(self._question)
        self.transport.closeStdin()

    def outReceived(self, data: bytes) -> None:
        """Keep the answer."""
        self._output.append(data)

    def errReceived(self, data: bytes) -> None:
        """Keep the text of a failure."""
        self._errors.append(data)

    def childConnectionLost(self, childFD: int) -> None:
        """Fire `ended` with all output; without waiting for SIGCHLD, which may be blocked."""
        if childFD == 1:
            self.ended.callback(b"".join(self._output) or b"".join(self._errors))
