"""What operators do to schedules: a part of `txqueue.admin.Admin`."""

from __future__ import annotations

from typing import Any

from txqueue.wire.admin_commands import ActOnSchedule

__all__ = ["RecurringWork"]


class RecurringWork:
    """Schedules by their names, through a node."""

    async def _say(self, command: type[Any], **arguments: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def pause_schedule(self, name: str) -> bool:
        """Pause it: it is not due until it is resumed. Returns whether that changed anything."""
        return bool((await self._say(ActOnSchedule, name=name, act="pause"))["changed"])

    async def resume_schedule(self, name: str) -> bool:
        """Have it be due again, from its next moment on; returns whether that is new."""
        return bool((await self._say(ActOnSchedule, name=name, act="resume"))["changed"])

    async def remove_schedule(self, name: str) -> None:
        """Remove it; its jobs stay."""
        await self._say(ActOnSchedule, name=name, act="remove")

    async def run_schedule(self, name: str) -> int:
        """Enqueue its job now; returns the job's number."""
        return int((await self._say(ActOnSchedule, name=name, act="run"))["job_id"])
