"""The JSON text in which jobs' outcomes travel from a worker to the stored function ``settle()``.

Workers write the text; a master passes it on, and parses it only if the database refuses it.

Failures at the same place have the same frames, which are most of an error's text. An array has
them once: an outcome names them by a key in ``trace``, and the first one that does has them in
``frames``. Its ``error`` is then the line alone; ``shape`` is that as ``error_shape()`` has it, if
that differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final

from attrs import fields

from txqueue.model.assignment import SettledJob, SettledJobs, framed

LONGEST: Final = 1 << 15
"""Characters of the outcomes that a worker reports together."""
_NAMES: Final = [field.name for field in fields(SettledJob) if field.name != "frames"]
# Characters of the line that error_shape() takes.
_LONGEST_LINE: Final = 500
# The digits that error_kind() does not tell from each other become one. A text, as translate() has
# to catch an error for each character that a dict lacks; those beyond the text remain.
_ALIKE: Final = "".join(map(chr, range(128))).translate(str.maketrans("23456789", "11111111"))
_VALUES: Final = attrgetter(*_NAMES)
_encoded: Final = json.JSONEncoder(separators=(",", ":")).encode


def outcomes_texts(jobs: Iterable[SettledJob], longest: int = LONGEST) -> Iterator[str]:
    """Make JSON arrays of outcomes, as objects without fields that are None or False.

    Args:
        jobs: The outcomes.
        longest: The longest array, in characters; a longer outcome has one of its own.
    """
    texts: list[str] = []
    keys: set[str] = set()
    room = longest - len("[]")
    for job in jobs:
        text = _text(job, keys)
        if texts and len(text) > room:
            yield _array(texts)
            texts, room = [], longest - len("[]")
            keys.clear()
            text = _text(job, keys)
        texts.append(text)
        room -= len(text) + 1
    if texts:
        yield _array(texts)


def outcomes_text(jobs: Iterable[SettledJob]) -> str:
    """Return outcomes as one such array, with whole errors."""
    return json.dumps([_object(job) for job in jobs])


def _text(job: SettledJob, keys: set[str]) -> str:
    """Return an outcome as JSON text.

    Args:
        job: The outcome.
        keys: The keys of the frames that the text before this one has; those of this are added.
    """
    members = _object(job)
    if job.frames is not None and (line := _line(job, job.frames)) is not None:
        members |= {"error": line, **_trace(line, job.frames, keys)}
    return _encoded(members)


def _trace(line: str, frames: str, keys: set[str]) -> dict[str, str]:
    """Return the members that name the frames of a failure, and have them if it is the first."""
    shape, key = _shape(line), _key(frames)
    members = {"trace": key} if shape == line else {"shape": shape, "trace": key}
    if key not in keys:
        keys.add(key)
        members["frames"] = frames
    return members


def _line(job: SettledJob, frames: str) -> str | None:
    """Return the line of an error with frames; None for an error that is stored as it is."""
    error = job.error or ""
    line = error[: (len(error) - len(frames) - 2) // 2]
    is_plain = len(line) <= _LONGEST_LINE and "\n" not in line and 'File "' not in line
    # An error that has been cut off since has no such form.
    return line if is_plain and error == framed(line, frames) else None


def _shape(line: str) -> str:
    """Return a line with equal digits, except those of the class."""
    name, colon, message = line.partition(": ")
    return f"{name}{colon}{message.translate(_ALIKE)}"


@lru_cache(200)
def _key(frames: str) -> str:
    return blake2b(frames.encode(), digest_size=8).hexdigest()


def as_settled_jobs(jobs: Iterable[SettledJob]) -> SettledJobs:
    """Return a worker's report of the given outcomes."""
    return SettledJobs(outcomes_text(jobs))


def settled_jobs_in(settled: Iterable[SettledJobs]) -> list[SettledJob]:
    """Return the outcomes in the given reports of workers, which may be of a newer version."""
    outcomes = [outcome for report in settled for outcome in json.loads(report.outcomes)]
    frames = {each["trace"]: each["frames"] for each in outcomes if "frames" in each}
    return [_settled_job(outcome, frames) for outcome in outcomes]


def _settled_job(outcome: Mapping[str, Any], frames: Mapping[str, str]) -> SettledJob:
    members = {name: outcome[name] for name in _NAMES if name in outcome}
    if (trace := frames.get(outcome.get("trace", ""))) is not None:
        members["error"] = framed(members["error"], trace)
    return SettledJob(**members, frames=trace)


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
