"""A flood of high priority delays low priority by so much and no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.db.masters import Master

HIGH, LOW = 7, 2
AGING = 2
ROUNDS = 60


def test_a_flood_of_high_work_passes_low_work_only_for_a_time(node: Master) -> None:
    """High work at 110 % of what is taken: a low job waits for none that came 5 agings after it.

    A job of priority p is passed only by those of priority q that become due less than (q - p)
    agings after it, however long the flood lasts. A round is a second, by the moments of the jobs.
    """
    node.cursor.execute(f"update txqueue.setting set aging = '{AGING} s'")
    began = datetime(2020, 1, 1, tzinfo=UTC)
    rounds: dict[int, int] = {}
    lows: dict[int, int] = {}
    latest = 0
    passed_by: dict[int, int] = {}
    for number in range(ROUNDS):
        due = (began + timedelta(seconds=number)).isoformat()
        highs = [{"priority": HIGH, "not_before": due} for _ in range(11)]
        low, *others = node.enqueue({"priority": LOW, "not_before": due}, *highs)
        lows[low] = number
        rounds |= dict.fromkeys(others, number)
        for job_id in node.claimed_ids(10):
            if job_id in lows:
                passed_by[job_id] = latest - lows[job_id]
            else:
                latest = max(latest, rounds[job_id])
    bound = (HIGH - LOW) * AGING
    assert len(passed_by) > ROUNDS / 2
    assert max(passed_by.values()) <= bound
    # The flood did pass them: the bound is what holds it.
    assert max(passed_by.values()) >= bound - 1
