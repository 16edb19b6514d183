"""Outcomes as they travel: what a worker writes is what a master reads."""

import json

from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.assignment import SettledJob, SettledJobs
from txqueue.store.node.outcomes import (
    as_settled_jobs,
    joined_outcomes,
    outcomes_text,
    outcomes_texts,
    settled_jobs_in,
)

OUTCOMES = [
    SettledJob(1, 7, "done", result=False, progress=[1, None, ""]),
    SettledJob(2, 7, "retry", delay=0.0, error='a "quoted" line\n'),
    SettledJob(3, 8, "cancelled", unstarted=True),
    SettledJob(4, 8, "next", stage={"work_type": "mail.sent", "payload": {}}),
]


def test_only_what_applies_is_written() -> None:
    """A false result and a delay of 0 are said; what is not there is left out."""
    assert outcomes_text(OUTCOMES[2:3]) == (
        '[{"job_id": 3, "assignment": 8, "outcome": "cancelled", "unstarted": true}]'
    )
    assert '"result": false' in outcomes_text(OUTCOMES[:1])
    assert '"delay": 0.0' in outcomes_text(OUTCOMES[1:2])


@given(st.lists(st.text(max_size=200), min_size=1), st.integers(1, 500))
def test_reports_are_bounded(errors: list[str], longest: int) -> None:
    """Each is short, or has a single outcome; together they have all, in order."""
    jobs = [SettledJob(number, 1, "failed", error=error) for number, error in enumerate(errors)]
    texts = list(outcomes_texts(jobs, longest))
    assert settled_jobs_in(map(SettledJobs, texts)) == jobs
    for text in texts:
        assert len(json.loads(text)) == 1 or len(text) <= longest + 2 + len(errors)


def test_reports_are_joined_as_they_are() -> None:
    """Several reports are one array, and read as the same outcomes."""
    reports = [as_settled_jobs(OUTCOMES[:1]), as_settled_jobs(OUTCOMES[1:])]
    assert [report.jobs for report in reports] == [1, 3]
    assert json.loads(joined_outcomes(reports)) == json.loads(outcomes_text(OUTCOMES))
    assert settled_jobs_in(reports) == OUTCOMES
