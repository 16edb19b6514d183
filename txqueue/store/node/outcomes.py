"""The JSON text in which jobs' outcomes travel from a worker to the stored function ``settle()``.

Workers write the text; a master passes it on, and parses it only if the database refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from attrs import fields

from txqueue.model.assignment import SettledJob, SettledJobs

__all__ = [
    "as_settled_jobs",
    "joined_outcomes",
    "outcomes_text",
    "outcomes_texts",
    "settled_jobs_in",
]

LONGEST: Final = 1 << 15
"""Characters of the outcomes that a worker reports together."""
_NAMES: Final = [field.name for field in fields(SettledJob)]
_VALUES: Final = attrgetter(*_NAMES)


def outcomes_texts(jobs: Iterable[SettledJob], longest: int = LONGEST) -> Iterator[str]:
    """Make JSON arrays of outcomes, as objects without fields that are None or False.

    Args:
        jobs: The outcomes.
        longest: The longest array, in characters; a longer outcome has one of its own.
    """
    texts: list[str] = []
    total = 0
    for text in (json.dumps(_object(job)) for job in jobs):
        total += len(text)
        if texts and total > longest:
            yield _array(texts)
            texts, total = [], len(text)
        texts.append(text)
    if texts:
        yield _array(texts)


def outcomes_text(jobs: Iterable[SettledJob]) -> str:
    """Return outcomes as one such array."""
    return _array(json.dumps(_object(job)) for job in jobs)


def as_settled_jobs(jobs: Iterable[SettledJob]) -> SettledJobs:
    """Return a worker's report of the given outcomes."""
    return SettledJobs(outcomes_text(jobs))


def settled_jobs_in(settled: Iterable[SettledJobs]) -> list[SettledJob]:
    """Return the outcomes in the given reports of workers, which may be of a newer version."""
    return [
        SettledJob(**{name: outcome[name] for name in _NAMES if name in outcome})
        for report in settled
        for outcome in json.loads(report.outcomes)
    ]


def joined_outcomes(settled: Iterable[SettledJobs]) -> str:
    """Return the outcomes of several reports as one JSON array, without parsing them."""
    return _array(report.outcomes[1:-1] for report in settled)


def _array(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"


def nulls_or_texts(texts: list[str | None]) -> list[str | None] | None:
    """Return None instead of texts that are all missing.

    psycopg2 writes those alone as an array's text, in which ``array_nulls = off`` changes them.
    """
    return texts if any(text is not None for text in texts) else None


def _object(job: SettledJob) -> dict[str, Any]:
    members = {
        name: value for name, value in zip(_NAMES, _VALUES(job), strict=True) if value is not None
    }
    if not job.unstarted:
        del members["unstarted"]
    return members
