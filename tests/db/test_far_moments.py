"""Moments beyond what programs can represent: refused, and read where they are there anyway."""

from __future__ import annotations

import json

import psycopg2
import pytest

from tests.db.masters import Master
from txqueue.policy.pagination import as_text
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.job_details import about_job, about_obstacles
from txqueue.store.reads.job_search import about_jobs
from txqueue.store.reads.queue_state import about_all

FAR = ["10000-01-01Z", "294276-12-31Z", "0044-03-15 BC", "1899-12-31Z", "9999-01-01Z"]


@pytest.mark.parametrize("moment", FAR)
@pytest.mark.parametrize("name", ["not_before", "not_after"])
def test_a_moment_out_of_range_is_refused(node: Master, name: str, moment: str) -> None:
    """One at a time and in bulk, with the name of the argument and the range."""
    said = f"{name} is not between the years 1900 and 9998"
    with pytest.raises(psycopg2.Error, match=said):
        node.enqueue({name: moment})
    with pytest.raises(psycopg2.Error, match=said):
        node.value(f"select txqueue.enqueue('test.kind', '{{}}', {name} => %s)", moment)
    assert node.states() == {}


def test_the_ends_of_the_range_are_taken(node: Master) -> None:
    """And infinity, which means never."""
    node.enqueue({"not_before": "1900-01-01Z"}, {"not_before": "9998-12-31 23:59:59.999999Z"})
    node.enqueue({"not_before": "infinity"}, {"not_after": "infinity"})
    assert sum(node.states().values()) == 4


@pytest.mark.parametrize("moment", [*FAR, "infinity", "-infinity"])
def test_tools_read_a_moment_that_is_there_anyway(node: Master, dsn: str, moment: str) -> None:
    """A row written past the functions blinds no look at others."""
    far, near = node.enqueue({}, {})
    node.cursor.execute(
        "update txqueue.job set not_before = %s, rank = %s, enqueued_at = %s where job_id = %s",
        (moment, moment, moment, far),
    )
    with Session(dsn) as session:
        listed, _ = session.find(about_jobs("txqueue", {}, 10))
        assert [each["job_id"] for each in listed] == [near, far]
        for inquiry in (about_job("txqueue", far), about_all("txqueue")):
            assert json.loads(as_text(session.find(inquiry)))
        assert session.find(about_obstacles("txqueue", far)).detail


def test_a_retry_put_off_for_ever_is_within_the_range(node: Master) -> None:
    """Whatever delay a handler gives."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    outcome = {"job_id": job_id, "assignment": chunk.assignment, "outcome": "snooze"}
    node.value(
        "select settled from txqueue.settle(%s, %s)",
        node.incarnation,
        json.dumps([{**outcome, "delay": 1e300}]),
    )
    assert node.value("select not_before < '2500-01-01' from txqueue.find_job(%s)", job_id)
