"""The text by which a notification brings a job."""

import pytest

from txqueue.model.assignment import Assignment, notified_job

CHUNK = '{"fields":[],"jobs":[[1,"a","\\n \u2028"]]}'


def test_the_text_has_the_run_the_lane_the_assignment_and_the_job() -> None:
    """As notify_run() writes it."""
    assert notified_job(f"7 3 1234567 {CHUNK}") == Assignment(7, 1_234_567, 3, 1, 1, CHUNK)


@pytest.mark.parametrize(
    "text",
    [
        *("", "jobs 1 5", "7 8 1", "7 0", "7 0 ", "0 1", "7 0 1 ", "7 0 1\n", "7 0 1"),
        *(f"7 0 {2**63} []", f"7 0 {10**300} []", f"{10**300} 0 1 []"),
    ],
)
def test_other_texts_name_no_job(text: str) -> None:
    """Newer stored functions may send some."""
    assert notified_job(text) is None
