"""What operators do about failures by kind: a part of `txqueue.admin.Admin`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from txqueue.wire.admin_commands import (
    DiscardFailures,
    ListFailures,
    PostponeFailures,
    RetryFailures,
)

__all__ = ["KindsOfFailure"]


class KindsOfFailure:
    """Failures by the fingerprint of their errors, through a node."""

    async def _say(self, command: type[Any], **arguments: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def _whole(self, command: type[Any], name: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def failures(self) -> list[dict[str, Any]]:
        """Return the kinds of failure that there are, by work type.

        Returns:
            ``fingerprint, work_type, failed, waiting, first_seen, last_seen, example, error`` each.
        """
        return await self._whole(ListFailures, "failures")

    async def retry_failures(self, fingerprint: str) -> int:
        """Run all jobs again that have failed in one way, and not again since; returns how many."""
        return await self._repeated(RetryFailures, "retried", fingerprint)

    async def discard_failures(self, fingerprint: str) -> int:
        """Have all jobs that failed for good in one way count as cancelled; returns how many."""
        return await self._repeated(DiscardFailures, "discarded", fingerprint)

    async def _repeated(self, command: type[Any], counted: str, fingerprint: str) -> int:
        """Say it until none is left of those that had failed at first."""
        total: int = 0
        given: dict[str, Any] = {"fingerprint": fingerprint}
        while True:
            answer = await self._say(command, **given)
            total += answer[counted]
            if not answer[counted]:
                return total
            given["before"] = answer["before"]

    async def postpone_failures(self, fingerprint: str, delay: float) -> tuple[int, datetime]:
        """Have all jobs that have failed in one way run again, but not before some seconds.

        Returns:
            How many, and the moment.
        """
        total: int = 0
        given: dict[str, Any] = {"fingerprint": fingerprint, "delay": delay}
        while True:
            answer = await self._say(PostponeFailures, **given)
            total += answer["postponed"]
            if not answer["postponed"]:
                return total, datetime.fromisoformat(answer["until"])
            given["until"] = answer["until"]
