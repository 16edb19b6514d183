"""Which waiting jobs a new version of the application could not read, by its schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from txqueue.model.schema_check import find_misfit


@define
class _Tally:
    """The jobs of a work type."""

    jobs: int = 0
    encrypted: int = 0
    misfits: dict[str, list[int]] = field(factory=dict)


@define
class Readability:
    """Counts jobs whose payloads do not fit the schema of their type, without their values.

    Args:
        schemas: The schemas by work type; None for a type of the new code that has none.
    """

    _schemas: Mapping[str, Mapping[str, Any] | None]
    _tallies: dict[str, _Tally] = field(factory=dict, init=False)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Judge jobs: rows with ``job_id``, ``work_type``, ``payload`` and ``is_encrypted``."""
        for row in rows:
            tally = self._tallies.setdefault(row["work_type"], _Tally())
            tally.jobs += 1
            schema = self._schemas.get(row["work_type"])
            if row["is_encrypted"]:
                tally.encrypted += 1
            elif schema is not None and (what := find_misfit(schema, row["payload"])) is not None:
                # The number of jobs, and of the first one.
                tally.misfits.setdefault(what, [0, row["job_id"]])[0] += 1

    @property
    def checked(self) -> int:
        """How many jobs were compared with a schema, or are of a type that the new code lacks."""
        known = [tally for name, tally in self._tallies.items() if self._has_schema(name)]
        return self._lost + sum(tally.jobs - tally.encrypted for tally in known)

    @property
    def unreadable(self) -> int:
        """How many jobs do not fit the schema of their type, or are of one that is lacking."""
        tallies = self._tallies.values()
        return self._lost + sum(jobs for each in tallies for jobs, _ in each.misfits.values())

    @property
    def _lost(self) -> int:
        return sum(each.jobs for name, each in self._tallies.items() if name not in self._schemas)

    def _has_schema(self, work_type: str) -> bool:
        return self._schemas.get(work_type) is not None

    def types(self) -> list[dict[str, Any]]:
        """Return the types that have jobs, with their misfits, sorted by name."""
        return [
            {
                "work_type": name,
                "is_known": name in self._schemas,
                "has_schema": self._has_schema(name),
                "jobs": tally.jobs,
                "encrypted": tally.encrypted,
                "misfits": [
                    {"what": what, "jobs": jobs, "job_id": job_id}
                    for what, (jobs, job_id) in sorted(tally.misfits.items())
                ],
            }
            for name, tally in sorted(self._tallies.items())
        ]
