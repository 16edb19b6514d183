"""A chunk that does not have the jobs of its assignment harms only itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.performing import INCARNATION, LANE, Handled, Harness
from txqueue import RunningJob
from txqueue.model.assignment import FIELDS, Assignment

ENTRY = [17, Handled.work_type, 1, 1, {}, None]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5
)


def returning(self: object, job: RunningJob) -> None:
    """Return at once."""


def hand_text(harness: Harness, chunk: str, *, jobs: int = 1, weight: int = 1) -> None:
    """Hand the performer a text in place of a chunk."""
    harness.performer.perform(Assignment(INCARNATION, 9, LANE, jobs, weight, chunk))


def chunk_of(*entries: object, fields: object = FIELDS) -> str:
    """A text that looks like a chunk."""
    return json.dumps({"fields": fields, "jobs": entries})


def replaced(**values: object) -> str:
    """A chunk whose job has other values."""
    return chunk_of([values.get(name, value) for name, value in zip(FIELDS, ENTRY, strict=True)])


@pytest.mark.parametrize(
    "chunk",
    [
        "no chunk",
        "",
        "7",
        "null",
        "[]",
        "{}",
        "[[",
        "[[1,2]]",
        "9" * 5_000,
        "[" * 100_000,
        '{"fields":7,"jobs":[[1]]}',
        '{"fields":["job_id"],"jobs":7}',
        chunk_of(),
        chunk_of(7),
        chunk_of({}),
        chunk_of(ENTRY[:-2]),
        chunk_of([*ENTRY, 1]),
        chunk_of(ENTRY, ENTRY),
        chunk_of(ENTRY, fields=FIELDS[:-1]),
        chunk_of(ENTRY[:-1], fields=FIELDS[:-1]),
        chunk_of(ENTRY, fields=[[]] * len(FIELDS)),
        replaced(job_id="17"),
        replaced(job_id=True),
        replaced(job_id=-1),
        replaced(job_id=2**63),
        replaced(job_id=1.5),
        replaced(work_type=None),
        replaced(work_type=["performing.handled"]),
        replaced(attempt=None),
        replaced(attempt=0),
        replaced(attempt=2**31),
        replaced(weight="1"),
        replaced(weight=-1),
        replaced(weight=0),
        replaced(weight=2),
        replaced(weight=10**30),
    ],
)
def test_a_text_that_is_no_chunk_is_refused(chunk: str) -> None:
    """The jobs before and after it run."""
    harness = Harness()
    with harness.handler(lambda _, job: harness.wait(job)):
        harness.hand(5, Handled.entry(1))
        hand_text(harness, chunk)
        harness.hand(6, Handled.entry(2))
        harness.turn()
        assert [number for number, _ in harness.refused] == [9]
        assert sorted(harness.running) == [1, 2]
        harness.end_all()
    assert [number for number, *_ in harness.finished] == [5, 6]


def test_the_reason_quotes_nothing_of_the_text() -> None:
    """It is logged, and the text may hold a payload."""
    harness = Harness()
    hand_text(harness, replaced(work_type="secret", weight="secret"))
    hand_text(harness, '["secret"')
    hand_text(harness, '{"fields":["secret"],"jobs":[["secret"]]}')
    assert len(harness.refused) == 3
    assert not [reason for _, reason in harness.refused if "secret" in reason]


@given(
    st.lists(VALUES, min_size=6, max_size=6)
    | st.builds(
        lambda place, value: [*ENTRY[:place], value, *ENTRY[place + 1 :]], st.integers(0, 5), VALUES
    )
)
def test_any_values(entry: list[Any]) -> None:
    """A job is refused, fails or runs; another one runs, and what is reported is valid."""
    harness = Harness()
    with harness.handler(returning):
        hand_text(harness, chunk_of(entry))
        harness.hand(6, Handled.entry(2))
        harness.turn()
    ended = [number for number, *_ in harness.finished]
    ended += [job["assignment"] for job in harness.settled]
    ended += [number for number, _ in harness.refused]
    assert sorted(ended) == [6, 9]
    json.dumps(harness.settled).encode()


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "timeout",
                "attempts",
                "left",
                "grouped",
                "expires",
                "steps",
                "stages",
                "parents",
                "trace",
                "deaths",
                "unread",
            ]
        ),
        VALUES,
    )
)
def test_any_terms(terms: dict[str, Any]) -> None:
    """The job fails, or runs; another one runs."""
    harness = Harness()
    with harness.handler(returning):
        hand_text(harness, replaced(terms=terms))
        harness.hand(6, Handled.entry(2))
        harness.turn()
    assert 6 in [number for number, *_ in harness.finished]
