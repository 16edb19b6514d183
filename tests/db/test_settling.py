"""Many jobs settled by one call: each as by a call of its own, and none costs more for that."""

import json
import random
import re
from typing import Any

import pytest

from tests.db.masters import Master

OUTCOMES = ("done", "failed", "retry", "snooze", "cancelled", "next")
# What differs from run to run: numbers, moments, and the names that hold them.
VARYING = (
    """
    job_id, rank, enqueued_at, assigned_at, not_before, not_after, started_at, finished_at,
    failed_at, assignment, incarnation, node_id, lane
""".replace("\n", " ")
    .replace(" ", "")
    .split(",")
)
TRACEBACK = '{0}\n\nTraceback:\n  File "/srv/shop/mail.py", line {1}, in send\n{0}'
PAGES = """
    select sum(coalesce(heap_blks_hit, 0) + coalesce(heap_blks_read, 0) + coalesce(idx_blks_hit, 0)
        + coalesce(idx_blks_read, 0)) from pg_statio_all_tables where schemaname = 'txqueue'
"""


def told(chance: random.Random, job_id: int, assignment: int) -> dict[str, Any]:
    """An outcome of a job, with what its worker may say besides."""
    outcome = chance.choice(OUTCOMES)
    said: dict[str, Any] = {"job_id": job_id, "assignment": assignment, "outcome": outcome}
    if outcome in ("failed", "retry") or chance.random() < 0.3:
        said["error"] = TRACEBACK.format("ValueError: row 7", chance.randint(1, 99))
    if outcome == "done" and chance.random() < 0.7:
        said["result"] = {"number": chance.randint(1, 9)}
    if outcome in ("retry", "snooze"):
        said["delay"] = chance.choice([None, -1, 0, 3600, 1e300])
    if outcome == "next":
        kind = chance.choice(["test.kind", "not a type!"])
        said["stage"] = {"work_type": kind, "payload": {"stage": 2}}
    if outcome not in ("done", "next") and chance.random() < 0.2:
        said["unstarted"] = True
    if chance.random() < 0.3:
        said["progress"] = [1, 2, "half"]
    return said


def assigned(node: Master, chance: random.Random, jobs: int) -> list[tuple[int, int]]:
    """Have jobs assigned, some late in their lives; returns the number and assignment of each."""
    groups = [None, "a", "b", "c", "d"]
    ids = node.enqueue(*({"group": chance.choice(groups)} for _ in range(jobs)))
    node.enqueue(*({"after": [job_id]} for job_id in ids[::3]))
    taken = [(job_id, chunk.assignment) for chunk in node.claim() for job_id in chunk.ids]
    changes = (
        "attempt = 32767",
        "attempt = 150",
        "deaths = 2",
        "started_at = now()",
        "error = 'x'",
    )
    for job_id, _ in taken:
        change = chance.choice(changes)
        node.cursor.execute(
            f"update txqueue.job_assigned set {change} where job_id = %s", (job_id,)
        )
    return taken


def suspicious(chance: random.Random, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add what changes nothing: stale tokens, numbers of no job, and what was said before."""
    wrong: list[dict[str, Any]] = [{"assignment": 10**9}, {"job_id": 10**12}, {"job_id": None}]
    more = [{**chance.choice(said), **chance.choice([*wrong, {"outcome": "failed"}])} for _ in said]
    # What is said twice of a job comes after the first.
    return said + more


def settle(node: Master, said: list[dict[str, Any]]) -> list[int]:
    """Settle with one call; returns the numbers of the jobs that were settled."""
    ids: list[int] = node.value(
        "select settled from txqueue.settle(%s, %s)", node.incarnation, json.dumps(said)
    )
    return ids


def rows(node: Master, first: int) -> list[dict[str, Any]]:
    """All jobs from a number on as they are now, without what differs from run to run."""
    found = node.column(
        "select to_jsonb(job) || jsonb_build_object('at', assigned_at is not null,"
        " 'left', incarnation is not null, 'ended', finished_at is not null,"
        " 'failing', failed_at is not null, 'place', job_id - %s,"
        " 'due', least(extract(epoch from not_before - now()), 1e8)::integer / 60)"
        " from txqueue.job where job_id >= %s order by job_id",
        first,
        first,
    )
    return [{key: each[key] for key in each if key not in VARYING} for each in found]


def attempts(node: Master, first: int) -> list[Any]:
    """What is kept of failed attempts from a number on."""
    return node.column(
        "select jsonb_build_array(job_id - %s, attempt, length(error)) from txqueue.failed_attempt"
        " where job_id >= %s order by job_id, attempt",
        *(first, first),
    )


@pytest.mark.parametrize("seed", range(6))
def test_many_end_as_each_would_by_itself(node: Master, seed: int) -> None:
    """Whatever happens to the others of the call, with stale tokens and repeated outcomes."""
    seen: list[Any] = []
    for at_once in (True, False):
        chance = random.Random(seed)
        (first,) = node.enqueue({"not_before": "2999-01-01T00:00:00Z"})
        taken = assigned(node, chance, 60)
        said = [told(chance, job_id, assignment) for job_id, assignment in taken]
        whole = suspicious(chance, said)
        calls = [whole] if at_once else [[each] for each in whole]
        ids = [number - first for each in calls for number in settle(node, each)]
        seen.append((sorted(ids), states(rows(node, first)), attempts(node, first)))
        node.cursor.execute("truncate txqueue.job, txqueue.job_parent")
    assert seen[0] == seen[1]


def states(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the numbers of parents, which their options and errors tell."""
    return [
        {**each, "options": None, "error": re.sub(r"\d+", "#", each["error"] or "")}
        for each in found
    ]


def pages(node: Master, jobs: int, outcome: str) -> float:
    """The pages that the call touches for each job that it settles."""
    ids = node.enqueue(*({} for _ in range(jobs)))
    chunks = node.claim(jobs)
    said = [
        {
            **{"job_id": job_id, "assignment": chunk.assignment, "outcome": outcome},
            **{"error": "x", "delay": 3600},
        }
        for chunk in chunks
        for job_id in chunk.ids
    ]
    before = touched(node)
    assert sorted(settle(node, said)) == ids
    return (touched(node) - before) / jobs


def touched(node: Master) -> float:
    """All pages of the schema's tables that were touched so far."""
    node.value("select pg_stat_force_next_flush()::text")
    return float(node.value(PAGES))


@pytest.mark.parametrize("outcome", ["failed", "retry", "done"])
def test_a_job_costs_no_more_among_many(node: Master, outcome: str) -> None:
    """The pages touched grow with the jobs, not with their square."""
    node.enqueue({"not_before": "2999-01-01T00:00:00Z"})
    few, many = pages(node, 100, outcome), pages(node, 3000, outcome)
    assert 0 < many < 1.5 * few
