"""The checker of recorded runs finds violations."""

import pytest

from tests.cluster.history import Run, most_at_once, runs_of


def note(job_id: int, what: str, at: float, pid: int = 1) -> dict[str, object]:
    """A note as the application's diary has it."""
    return {"job_id": job_id, "attempt": 1, "what": what, "pid": pid, "at": at}


def test_runs_that_follow_one_another_are_one_at_once() -> None:
    """One may begin at the moment at which another ends."""
    assert most_at_once([Run(1, 0.0, 1.0), Run(2, 1.0, 2.0)]) == 1


def test_runs_that_overlap_are_found() -> None:
    """Three overlap between 2 and 3."""
    assert most_at_once([Run(1, 0.0, 3.0), Run(2, 1.0, 4.0), Run(3, 2.0, 5.0)]) == 3


def test_a_run_in_a_killed_process_ends_with_it() -> None:
    """The second run of the job is another."""
    notes = [note(1, "start", 0.0), note(1, "start", 2.0, pid=2), note(1, "end", 3.0, pid=2)]
    assert runs_of(notes, {1: 1.0}) == [Run(1, 2.0, 3.0), Run(1, 0.0, 1.0)]


def test_a_run_without_an_end_is_not_passed_over() -> None:
    """Unless its process was killed, it is an error."""
    with pytest.raises(KeyError):
        runs_of([note(1, "start", 0.0)], {})
