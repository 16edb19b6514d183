"""Assignments: their numbers, chunks and notifications."""

import json
from typing import Any

import pytest

from txqueue.model.assignment import (
    FIELDS,
    AssignedJob,
    Assignment,
    Unreadable,
    chunk_of_one,
    notified_job,
    read_chunk,
)
from txqueue.model.job import Token

JOB = AssignedJob(17, "some.type", 2, 3, {"a": [1]}, {"left": 1.5})


def chunk(*entries: str, fields: list[str] = FIELDS) -> str:
    """A chunk as the database writes it."""
    return f'{{"fields":{json.dumps(fields)},"jobs":[{",".join(entries)}]}}'


def test_the_token_of_an_assignment() -> None:
    """The run of the node, and the number."""
    assert Assignment(1, 5, 0, 1, 1, "").token == Token(1, 5)


def test_jobs_are_read_in_order() -> None:
    """With all their fields."""
    read = read_chunk(chunk('[17,"some.type",2,3,{"a": [1]},{"left": 1.5}]', '[4,"b",1,1,{},null]'))
    assert read == [JOB, AssignedJob(4, "b", 1, 1, {}, None)]


def test_fields_are_read_by_their_names() -> None:
    """Those of a newer database may be more, and in another order."""
    names = ["terms", "job_id", "more", "payload", "weight", "attempt", "work_type"]
    entry = json.dumps([{"left": 1.5}, 17, "?", {"a": [1]}, 3, 2, "some.type"])
    assert read_chunk(chunk(entry, fields=names)) == [JOB]


@pytest.mark.parametrize(
    ("payload", "error"),
    [("[" * 100_000 + "]" * 100_000, "RecursionError"), ("9" * 5_000, "ValueError")],
    ids=["deep", "long"],
)
def test_one_that_python_does_not_read(payload: str, error: str) -> None:
    """Says why; the others are read, whatever brackets their texts have."""
    tricky: Any = {'"],[': "]]\\", "[": "\\"}
    entries = [
        f'[1,"a",1,1,{json.dumps(tricky)},null]',
        f'[2,"b",4,5,{payload},{{"attempts": 3}}]',
        '[3,"c",1,1,{},null]',
    ]
    first, second, third = read_chunk(chunk(*entries))
    assert (first.payload, third.job_id) == (tricky, 3)
    assert (second.job_id, second.work_type, second.attempt, second.weight) == (2, "b", 4, 5)
    assert isinstance(second.payload, Unreadable)
    assert second.payload.reason.startswith(error)


def test_what_a_client_writes() -> None:
    """A job that has not run yet."""
    assert read_chunk(chunk_of_one(17, "some.type", 3, '{"a": 1}', '{"timeout": 2}')) == [
        AssignedJob(17, "some.type", 1, 3, {"a": 1}, {"timeout": 2})
    ]
    assert read_chunk(chunk_of_one(17, "some.type", 3, "{}")) == [
        AssignedJob(17, "some.type", 1, 3, {})
    ]


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
