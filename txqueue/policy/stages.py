"""The stages of a job, which `Next` ends, as operators see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


def without_stages(options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return the options of a job, and its stages before the present one, which they contain."""
    if not isinstance(options, Mapping) or "stages" not in options:
        return options, []
    rest = {name: value for name, value in options.items() if name != "stages"}
    return rest or None, [
        {**stage, **{name: _moment(stage[name]) for name in ("began", "ended")}}
        for stage in options["stages"]
    ]


def with_stages(
    attempts: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, Any]], work_type: str
) -> list[dict[str, Any]]:
    """Return failed attempts, each with the place and the work type of its stage.

    Args:
        attempts: The failed attempts of a job.
        stages: The ended stages of the job, in order.
        work_type: The work type of its present stage.
    """
    present = {"stage": stages[-1]["stage"] + 1 if stages else 1, "work_type": work_type}
    return [{**attempt, **_stage_of(attempt["at"], stages, present)} for attempt in attempts]


def _stage_of(
    at: datetime, stages: Sequence[Mapping[str, Any]], present: Mapping[str, Any]
) -> dict[str, Any]:
    stage = next((candidate for candidate in stages if candidate["ended"] >= at), present)
    return {name: stage[name] for name in ("stage", "work_type")}


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
