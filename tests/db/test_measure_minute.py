"""How long the jobs of a minute waited, for the histogram of waits."""

import pytest

from tests.db.masters import Master
from tests.db.test_minutes import LARGE, LATER, done
from txqueue.model.run_log import WAIT_BOUNDS, Histogram


def waits(node: Master) -> dict[tuple[str, str], tuple[list[int], float]]:
    """Note a minute; return the counts by bound, and the sum, of each queue and work type."""
    node.cursor.execute("select * from txqueue.measure_minute(%s)", (list(WAIT_BOUNDS),))
    return {(row[0], row[1]): (row[2], row[3]) for row in node.cursor.fetchall()}


def test_each_done_job_of_a_minute_counts_once_by_its_wait(node: Master) -> None:
    """As a histogram does that observes each of them; waits that equal a bound count up to it."""
    waits(node)
    node.cursor.execute(LATER)
    expected = Histogram(WAIT_BOUNDS)
    for waited in (*WAIT_BOUNDS, 0.0, 0.003, 7.5, 5000.0):
        done(node, 3, waited=waited, took=0)
        expected.observe(waited, 3)
    done(node, 10, "mail", waited=20, took=1)
    found = waits(node)
    counts, total = found["default", "test.kind"]
    assert counts == expected.counts
    assert total == pytest.approx(expected.total)
    assert sum(found["mail", "test.kind"][0]) == 10
    assert waits(node) == {}


def test_of_a_minute_with_very_many_jobs_the_last_stand_for_all(node: Master) -> None:
    """Only the last pages of the day are read."""
    waits(node)
    node.cursor.execute(LATER)
    node.cursor.execute(LARGE)
    [(counts, _)] = waits(node).values()
    assert 10_000 < sum(counts) < 14_000
