"""The text by which a notification names a job."""

import pytest

from txqueue.model.assignment import NamedJob, named_job


def test_the_text_has_the_lane_and_the_assignment() -> None:
    """As enqueue() writes it."""
    assert named_job("3 1234567") == NamedJob(3, 1_234_567)
    assert named_job(f"0 {2**63 - 1}") == NamedJob(0, 2**63 - 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "jobs 1 5",
        "8 1",
        "0",
        "0 ",
        "0 -1",
        "0 1.5",
        "0 1 ",
        "0 1\n",
        "0 \u0661",
        f"0 {2**63}",
        "0 " + "9" * 20,
    ],
)
def test_other_texts_name_no_job(text: str) -> None:
    """Any role may send any text, even a number that the database would refuse."""
    assert named_job(text) is None
