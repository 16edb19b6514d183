"""Which versions of the application, and of its work types, a node's workers run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from txqueue.system.application_files import Stamps, are_changed

__all__ = ["RunVersion", "WorkerVersions"]

# Seconds between two looks at the application's files.
LOOK = 30.0


@frozen
class RunVersion:
    """What one worker process runs.

    Attributes:
        application: The version of the application; see `imported_application`.
        types: The versions of its work types; see `type_version`.
        files: The files of the application, as the process imported them.
    """

    application: str
    types: frozenset[str]
    files: Stamps


class WorkerVersions:
    """What the workers run: a worker that is replaced may have imported other files.

    Args:
        work_types: The names of the node's work types.
        published: The versions of these types that the node has published.

    Attributes:
        claimed: The names of the work types, and the versions that all workers have: a claim leaves
            jobs that these could not read to other nodes.
    """

    def __init__(self, work_types: Sequence[str], published: Sequence[str]) -> None:
        self._work_types = list(work_types)
        self._published = set(published)
        self._running: dict[int, RunVersion] = {}
        self.claimed = self._work_types
        self._looked_at = float("-inf")
        self._is_outdated = False

    def started(self, key: int, version: RunVersion) -> None:
        """Note what a worker runs, by its key."""
        self._running[key] = version
        self._looked_at = float("-inf")
        self._changed()

    def ended(self, key: int) -> None:
        """Forget a worker that has ended."""
        self._running.pop(key, None)
        self._changed()

    def _changed(self) -> None:
        types = [version.types for version in self._running.values()]
        common = frozenset.intersection(*types) if types else frozenset()
        self.claimed = [*self._work_types, *sorted(common)]

    def measured(self) -> Mapping[str, Any]:
        """Return what a heartbeat reports about the versions, as plain data."""
        running = self._running.values()
        types = {name for version in running for name in version.types}
        served = {name for name in types if name.rpartition("#")[0] in self._work_types}
        differ = {"type_versions": sorted(served)} if served - self._published else {}
        return {
            "applications": sorted({version.application for version in running}),
            "is_outdated": self._look(),
            **differ,
        }

    def _look(self) -> bool:
        """Tell whether files of the application have changed since a worker imported them."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK:
            self._looked_at = now
            files = {version.application: version.files for version in self._running.values()}
            self._is_outdated = any(map(are_changed, files.values()))
        return self._is_outdated
