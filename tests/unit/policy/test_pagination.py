"""Long lists in pages, and documents that come out of JSON as they went in."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.errors import AdminRefused
from txqueue.policy.pagination import (
    LARGEST_PAGE,
    as_text,
    first_page,
    join_numbers,
    numbers,
    read_document,
)

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


@given(st.lists(st.fixed_dictionaries({"text": st.text(max_size=50)}), max_size=50))
def test_pages_together_are_the_list(rows: list[dict[str, str]]) -> None:
    """Each row once and in order, no page longer than it may be unless it is one row."""
    found: list[Any] = []
    while True:
        page = first_page(rows[len(found) :], at_most=200)
        some = json.loads(page.text)
        assert len(page.text.encode()) <= 200 or len(some) == 1
        found += some
        if page.is_whole:
            break
        assert some
        assert page.last == some[-1]
    assert found == rows


def test_a_page_fits_an_amp_value() -> None:
    """Counted in bytes, not in characters."""
    page = first_page([{"group": "🎉" * 1000}] * 1000)
    assert not page.is_whole
    assert LARGEST_PAGE - 5000 < len(page.text.encode()) <= LARGEST_PAGE


def test_nothing_is_a_whole_page() -> None:
    """Without a last row."""
    assert first_page([]).last is None
    assert first_page([]).is_whole


def test_moments_come_back() -> None:
    """Those of the queue's own columns; a payload is left as it was."""
    job = {"job_id": 1, "not_before": NOW, "started_at": None, "payload": {"at": NOW.isoformat()}}
    assert read_document(as_text(job)) == job
    status = {"at": NOW, "nodes": [{"started_at": NOW}], "queues": [{"queue": "at"}]}
    assert read_document(as_text(status)) == status
    for name in ("at", "held_until"):
        assert read_document(as_text([{name: NOW}])) == [{name: NOW}]
    assert read_document("null") is None


def test_what_is_no_moment_stays_text() -> None:
    """PostgreSQL knows moments that Python does not."""
    assert read_document('{"not_after": "infinity"}') == {"not_after": "infinity"}


@pytest.mark.parametrize("ids", [[], [7], [1, 2, 2**63 - 1]])
def test_numbers_come_back(ids: list[int]) -> None:
    """However many."""
    assert numbers(join_numbers(ids)) == ids


@pytest.mark.parametrize("text", ["x", "1;2", "1,-2", str(2**63), ",".join(["1"] * 1001), "1.5"])
def test_what_are_no_numbers_of_jobs(text: str) -> None:
    """Is refused, in one short line."""
    with pytest.raises(AdminRefused) as caught:
        numbers(text)
    assert len(str(caught.value)) < 300
