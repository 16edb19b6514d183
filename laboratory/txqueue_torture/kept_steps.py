"""Decides from the records of jobs with steps whether each step was done once, and kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from txqueue_torture.stepped import BOOKED

__all__ = ["StepRecords", "broken_steps"]

Step = tuple[int, str]
"""A job and the name of one of its steps."""


@frozen
class StepRecords:
    """What the jobs of a scenario have done.

    Attributes:
        returned: What each step has returned to the runs of its job.
        written: How many rows each step has written.
        children: How many children each job has enqueued.
        repeated: The steps that an operator had done again.
    """

    returned: Mapping[Step, frozenset[Any]]
    written: Mapping[Step, int]
    children: Mapping[int, int]
    repeated: frozenset[Step] = field(factory=frozenset)

    @classmethod
    def of(
        cls,
        lines: Iterable[Mapping[str, Any]],
        written: Iterable[tuple[int, str, int]],
        children: Iterable[tuple[int, int]],
        repeated: Iterable[Step] = (),
    ) -> StepRecords:
        """Assemble it from the records of the runs, and from rows of the database."""
        returned: dict[Step, set[Any]] = defaultdict(set)
        for line in lines:
            returned[line["job_id"], line["name"]].add(line["value"])
        rows = {(job_id, name): count for job_id, name, count in written}
        kept = {step: frozenset(values) for step, values in returned.items()}
        return cls(kept, rows, dict(children), frozenset(repeated))


def broken_steps(records: StepRecords, steps: Iterable[str], job_ids: Iterable[int]) -> list[str]:
    """Return what is wrong with the steps of jobs that are done.

    Args:
        records: What the jobs have done.
        steps: The names of the steps of each job that return something.
        job_ids: The jobs.
    """
    names = tuple(steps)
    return [text for job_id in job_ids for text in _broken(records, names, job_id)]


def _broken(records: StepRecords, names: tuple[str, ...], job_id: int) -> Iterator[str]:
    for name in names:
        step = job_id, name
        wanted = 1 + (step in records.repeated)
        values = records.returned.get(step, frozenset())
        if len(values) != wanted:
            yield f"step {name!r} of job {job_id} returned {sorted(map(str, values))}"
        if name in BOOKED and (rows := records.written.get(step, 0)) != wanted:
            yield f"step {name!r} of job {job_id} was committed {rows} times"
    yield from _of_signals(records, names, job_id)
    if "child" in names and (count := records.children.get(job_id, 0)) != 1:
        yield f"job {job_id} has {count} children"


def _of_signals(records: StepRecords, names: tuple[str, ...], job_id: int) -> Iterator[str]:
    waits = [name for name in names if name.startswith("go ")]
    taken = Counter(
        value for name in waits for value in records.returned.get((job_id, name), frozenset())
    )
    for value, times in taken.items():
        if times > 1:
            yield f"the signal {value!r} of job {job_id} was consumed {times} times"
