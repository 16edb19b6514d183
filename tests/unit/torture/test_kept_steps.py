"""What jobs with steps have done is judged: what is done twice, or twice otherwise, is found."""

from typing import Any

import pytest

from txqueue_torture.kept_steps import StepRecords, broken_steps

NAMES = ("left", "book", "go 1", "go 2", "child")
VALUES = {"left": 7, "book": 7, "go 1": "own", "go 2": "theirs", "child": 2}
LINES = [{"job_id": 1, "name": name, "value": value} for name, value in VALUES.items()]


def judged(lines: Any, written: Any = ((1, "book", 1),), children: Any = ((1, 1),)) -> list[str]:
    """Judge the job 1."""
    return broken_steps(StepRecords.of(lines, written, children), NAMES, [1])


def test_a_job_whose_steps_returned_the_same_to_each_run_is_right() -> None:
    """Each step was done once, and kept."""
    assert judged([*LINES, LINES[0]]) == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"lines": [*LINES, {**LINES[0], "value": 8}]}, "step 'left' of job 1 returned ['7', '8']"),
        ({"lines": LINES[1:]}, "step 'left' of job 1 returned []"),
        ({"written": [(1, "book", 2)]}, "step 'book' of job 1 was committed 2 times"),
        ({"written": []}, "step 'book' of job 1 was committed 0 times"),
        ({"children": [(1, 2)]}, "job 1 has 2 children"),
        (
            {"lines": [*LINES[:3], {**LINES[3], "value": "own"}, LINES[4]]},
            "the signal 'own' of job 1 was consumed 2 times",
        ),
    ],
)
def test_what_is_done_twice_or_not_at_all_is_found(given: dict[str, Any], text: str) -> None:
    """Each text says what is wrong."""
    assert judged(**{"lines": LINES, **given}) == [text]


def test_a_step_that_is_repeated_is_done_twice() -> None:
    """After an operator had it done again, it has another result, and has written another row."""
    records = StepRecords.of(LINES, [(1, "book", 1)], [(1, 1)], repeated=[(1, "book")])
    assert broken_steps(records, NAMES, [1]) == [
        "step 'book' of job 1 returned ['7']",
        "step 'book' of job 1 was committed 1 times",
    ]
