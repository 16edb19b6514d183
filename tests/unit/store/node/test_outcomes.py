"""Outcomes as they travel: what a worker writes is what a master reads."""

import json
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.assignment import SettledJob, SettledJobs, framed
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
        assert len(json.loads(text)) == 1 or len(text) <= longest


@given(st.lists(st.text("xy", max_size=50), min_size=1), st.integers(1, 500))
def test_a_report_ends_where_the_next_outcome_does_not_fit(errors: list[str], longest: int) -> None:
    """So that there are few: each costs the pipe and the master about as much as an outcome."""
    jobs = [SettledJob(number, 1, "failed", error=error) for number, error in enumerate(errors)]
    texts = list(outcomes_texts(jobs, longest))
    for text, following in pairwise(texts):
        first = json.dumps(json.loads(following)[0], separators=(",", ":"))
        assert len(text) + len(first) >= longest


EACH: dict[str, Any] = {
    **{"job_id": 1, "assignment": 2, "outcome": "retry", "delay": 1.5, "error": "E: no"},
    **{"result": {"a": 1}, "progress": 0, "stage": {"to": "next"}, "unstarted": True},
    **{"error_class": "shop.E", "log": "a line", "version": "2", "waits": [{"step": 1}]},
    **{"cost": 2.5, "throttled": True},
    "application": "3c2eecad",
}


@pytest.mark.parametrize("name", [field.name for field in fields(SettledJob)])
def test_each_field_of_an_outcome_arrives(name: str) -> None:
    """With the name that the master reads."""
    if name == "frames":
        job = failed(1, "E: no", "a")
    else:
        job = evolve(SettledJob(1, 2, "failed"), **{name: EACH[name]})
    assert settled_jobs_in(map(SettledJobs, outcomes_texts([job]))) == [job]


_TEXTS = st.none() | st.text(max_size=20)


@given(
    st.lists(
        st.builds(
            SettledJob,
            st.integers(1, 9),
            st.integers(1, 2**63 - 1),
            st.sampled_from(["retry", "failed", "snooze", "done"]),
            delay=st.none() | st.floats(0, 1e9),
            error=_TEXTS,
            result=st.sampled_from([None, 0, False, "x", {"a": [1]}]),
            unstarted=st.booleans(),
            error_class=_TEXTS,
            log=_TEXTS,
            frames=st.sampled_from([None, "Traceback:\n"]),
        ),
        min_size=1,
    )
)
def test_a_report_has_all_that_is_said_of_a_job(jobs: list[SettledJob]) -> None:
    """Any of it may be missing."""
    assert settled_jobs_in(map(SettledJobs, outcomes_texts(jobs))) == jobs
    assert all(json.loads(text) for text in outcomes_texts(jobs))


TRACE = 'Traceback (most recent call last):\n  File "/srv/shop.py", line 7, in {}\n    fail()\n'


def failed(number: int, line: str, place: str) -> SettledJob:
    """A failure of a function, with its traceback."""
    frames = TRACE.format(place)
    return SettledJob(number, 1, "failed", error=framed(line, frames), frames=frames)


@given(
    st.lists(st.tuples(st.text(max_size=30), st.sampled_from("abc")), min_size=1),
    st.integers(1, 2000),
)
def test_each_report_has_the_frames_of_its_failures(
    errors: list[tuple[str, str]], longest: int
) -> None:
    """Read apart, in any parts and together, they have all errors as they were."""
    jobs = [failed(number, *error) for number, error in enumerate(errors)]
    reports = [SettledJobs(text) for text in outcomes_texts(jobs, longest)]
    assert settled_jobs_in(reports) == jobs
    assert [job for report in reports for job in settled_jobs_in([report])] == jobs
    assert settled_jobs_in([SettledJobs(joined_outcomes(reports))]) == jobs


def test_a_report_has_frames_once() -> None:
    """They are most of the text of an error; the shape is written where a digit differs."""
    jobs = [failed(1, "E: row 42", "a"), failed(2, "E: no row", "a"), failed(3, "E: row 1", "b")]
    (text,) = outcomes_texts(jobs)
    outcomes = json.loads(text)
    assert [each["error"] for each in outcomes] == ["E: row 42", "E: no row", "E: row 1"]
    assert [each.get("shape") for each in outcomes] == ["E: row 11", None, None]
    assert ["frames" in each for each in outcomes] == [True, False, True]
    assert outcomes[0]["trace"] == outcomes[1]["trace"] != outcomes[2]["trace"]


@pytest.mark.parametrize(
    ("line", "shape"), [("api2.E404: row 42", "api2.E404: row 11"), ("api.E404", None)]
)
def test_a_class_keeps_its_digits(line: str, shape: str | None) -> None:
    """As errors of two classes are of two kinds."""
    (outcome,) = json.loads("".join(outcomes_texts([failed(1, line, "a")])))
    assert outcome.get("shape") == shape


@pytest.mark.parametrize("line", ["E: one\nand two", 'E: File "x", line 2', "E" * 501])
def test_an_error_of_another_form_is_written_whole(line: str) -> None:
    """Its kind is more than its first line."""
    job = failed(1, line, "a")
    (outcome,) = json.loads("".join(outcomes_texts([job])))
    assert (outcome["error"], outcome.get("trace")) == (job.error, None)


def test_an_error_that_was_cut_off_is_written_whole() -> None:
    """Its text ends within the frames, or before the line."""
    job = failed(1, "E: row 42", "a")
    cut = evolve(job, error=(job.error or "")[:-1])
    (outcome,) = json.loads("".join(outcomes_texts([cut])))
    assert (outcome["error"], outcome.get("trace")) == (cut.error, None)


def test_reports_are_joined_as_they_are() -> None:
    """Several reports are one array, and read as the same outcomes."""
    reports = [as_settled_jobs(OUTCOMES[:1]), as_settled_jobs(OUTCOMES[1:])]
    assert [report.jobs for report in reports] == [1, 3]
    assert json.loads(joined_outcomes(reports)) == json.loads(outcomes_text(OUTCOMES))
    assert settled_jobs_in(reports) == OUTCOMES
