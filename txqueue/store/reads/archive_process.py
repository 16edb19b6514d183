"""Reads archived jobs in a process of its own, as Parquet takes CPU and a large library."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol

from txqueue.errors import ArchiveUnavailable

__all__ = ["ArchiveProcess", "ProcessStarter"]

_MOMENTS: Final = (
    *("rank", "not_before", "not_after", "enqueued_at", "assigned_at", "started_at"),
    *("finished_at", "failed_at"),
)


class ProcessStarter(Protocol):
    """Starts processes: the part of IReactorProcess that is needed here."""

    def spawnProcess(
        self,
        processProtocol: ProcessProtocol,
        executable: str,
        args: Sequence[str],
        env: Mapping[str, str],
    ) -> Any:
        """Start a process."""


class ArchiveProcess:
    """Starts a process for each question.

    Args:
        reactor: Starts the processes.
    """

    def __init__(self, reactor: ProcessStarter) -> None:
        self._reactor = reactor

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
        question = {"days": [{**day, "day": day["day"].isoformat()} for day in days]}
        output = _Output(json.dumps({**question, "job_id": job_id}).encode())
        command = [sys.executable, "-m", "txqueue.archive", "job"]
        self._reactor.spawnProcess(output, sys.executable, command, env=dict(os.environ))
        answer = _read(await output.ended)
        if "error" in answer:
            raise ArchiveUnavailable(*answer["error"])
        row: dict[str, Any] | None = answer["job"]
        return row and {**row, **{name: _moment(row.get(name)) for name in _MOMENTS}}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _read(output: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        end = " ".join(output.decode(errors="replace").split())[-300:]
        raise ArchiveUnavailable(
            f"the process that reads the archive has failed: {end or 'it said nothing'}",
            f"check that {sys.executable} -m txqueue.archive runs",
        ) from None
    return answer


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
