"""Outcomes as they travel: what a worker writes is what a master reads."""

import json

from txqueue.model.assignment import SettledJob
from txqueue.store.outcomes import (
    as_settled_jobs,
    joined_outcomes,
    outcomes_text,
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


def test_reports_are_joined_as_they_are() -> None:
    """Several reports are one array, and read as the same outcomes."""
    reports = [as_settled_jobs(OUTCOMES[:1]), as_settled_jobs(OUTCOMES[1:])]
    assert [report.jobs for report in reports] == [1, 3]
    assert json.loads(joined_outcomes(reports)) == json.loads(outcomes_text(OUTCOMES))
    assert settled_jobs_in(reports) == OUTCOMES
