"""Jobs that waited for others and are run again by hand."""

from __future__ import annotations

from tests.db.masters import Master
from tests.db.test_parents import end, put
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.job_details import about_batch


def retry(node: Master, *ids: int) -> tuple[list[int], list[int]]:
    """Run jobs again by hand; returns those that do, and those that do not."""
    node.cursor.execute("select retried, refused from txqueue.retry(%s, 'ann')", (list(ids),))
    retried, refused = node.cursor.fetchall()[0]
    return sorted(retried), refused


def test_a_child_that_takes_any_end_runs_again(node: Master) -> None:
    """A failed parent counts as ended; the child gets the outcomes again."""
    (first,) = node.enqueue({})
    child = put(node, [first], after_any_end=True)
    end(node, "failed", first)
    end(node, "failed", child)
    assert retry(node, child) == ([child], [])
    assert node.claimed_ids() == [child]
    told = node.value("select options -> 'parents' ->> 'failed' from txqueue.job_assigned")
    assert told == "1"


def test_a_child_of_too_many_parents_is_refused(node: Master) -> None:
    """Only the number of its parents is stored, so their outcomes are unknown."""
    ids = node.enqueue(*[{} for _ in range(1001)])
    child = put(node, ids)
    node.value("select cancelled from txqueue.cancel(%s, 'ann')", [ids[0]])
    assert node.value("select options ->> 'after' from txqueue.find_job(%s)", child) == "1001"
    assert retry(node, child) == ([], [child])


def test_a_repeated_callback_has_the_outcomes_of_its_batch(node: Master) -> None:
    """The counts are those of the job that is repeated."""
    done, failing = node.enqueue({}, {})
    callback = put(node, [done, failing], after_any_end=True)
    end(node, "done", done)
    end(node, "failed", failing)
    end(node, "done", callback)
    again = node.value("select txqueue.repeat(%s, 'ann')", callback)
    (chunk,) = node.claim()
    assert chunk.ids == [again]
    assert chunk.jobs[0].terms["parents"] == {"done": 1, "failed": 1, "cancelled": 0}


def test_history_names_the_parents(node: Master) -> None:
    """The row of a child that has ended says which jobs it followed, and how those ended."""
    (first,) = node.enqueue({})
    child = put(node, [first])
    end(node, "done", first)
    end(node, "done", child)
    options = node.value("select options from txqueue.find_job(%s)", child)
    assert options["after"] == [first]
    assert options["parents"] == {"done": 1, "failed": 0, "cancelled": 0}


def batch(node: Master, dsn: str, callback: int) -> dict[str, int]:
    """The progress of a batch."""
    with Session(dsn) as session:
        told = session.find(about_batch("txqueue", callback))
    return {name: told[name] for name in ("jobs", "done", "failed", "left")}


def test_a_batch_waits_for_a_job_that_runs_again(node: Master, dsn: str) -> None:
    """Its counts are those of now, before and after its callback has run."""
    first, second = node.enqueue({}, {})
    callback = put(node, [first, second], after_any_end=True)
    end(node, "failed", first)
    assert batch(node, dsn, callback) == {"jobs": 2, "done": 0, "failed": 1, "left": 1}
    retry(node, first)
    assert batch(node, dsn, callback) == {"jobs": 2, "done": 0, "failed": 0, "left": 2}
    end(node, "done", second)
    assert node.waiting("parents") == [callback]
    end(node, "failed", first)
    end(node, "done", callback)
    assert batch(node, dsn, callback) == {"jobs": 2, "done": 1, "failed": 1, "left": 0}
    retry(node, first)
    end(node, "done", first)
    assert batch(node, dsn, callback) == {"jobs": 2, "done": 2, "failed": 0, "left": 0}
