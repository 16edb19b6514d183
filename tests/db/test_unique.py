"""Unique keys: jobs enqueued while another of their type holds the key."""

import json
from collections.abc import Iterator

import psycopg2
import pytest

from tests.db.masters import Master, master

SOON, LATER = "now", "2999-01-01"


def put(session: Master, number: int, mode: str = "keep", key: str = "k", **options: object) -> int:
    """Enqueue with a key; returns the number of the job that there is then."""
    names = "".join(f', "{name}" => %s' for name in options)
    sql = (
        "select txqueue.enqueue('test.kind', jsonb_build_object('number', %s::int),"
        f' "unique" => %s, unique_mode => %s{names})'
    )
    job_id: int = session.value(sql, number, key, mode, *options.values())
    return job_id


def numbers(session: Master) -> list[int]:
    """What the payloads of the jobs say that have not ended, by their numbers."""
    return session.column(
        "select (payload ->> 'number')::int from txqueue.job"
        " where state in ('waiting', 'ready', 'assigned') order by job_id"
    )


def keys(session: Master) -> int:
    """How many keys are held."""
    return int(session.value("select count(*) from txqueue.unique_job"))


@pytest.fixture
def open_one(dsn: str, node: Master) -> Iterator[Master]:
    """Another session, with a transaction that stays open until the test ends it."""
    with master(dsn, "open") as session:
        session.connection.autocommit = False
        yield session


def test_keep_returns_the_job_that_holds_the_key(node: Master) -> None:
    """While it is pending and while it runs; once it has ended the key is free."""
    first = put(node, 1)
    assert put(node, 2) == first
    (chunk,) = node.claim()
    assert put(node, 3) == first
    assert numbers(node) == [1]
    node.complete(chunk)
    assert put(node, 4) != first
    assert numbers(node) == [4]


def test_reject_is_an_error_of_its_own(node: Master) -> None:
    """While it is pending and while it runs."""
    put(node, 1, "reject")
    for _ in range(2):
        with pytest.raises(psycopg2.Error, match="has the same unique key") as caught:
            put(node, 2, "reject")
        assert caught.value.pgcode == "TXQ03"
        node.claim()


def test_replace_takes_the_payload_and_the_moment(node: Master) -> None:
    """Debounced: the delay counts from the last one, whether that is later or sooner."""
    first = put(node, 1, "replace")
    assert put(node, 2, "replace", not_before=LATER) == first
    assert node.job(first)["waiting_for"] == "time"
    assert node.job(first)["payload"] == {"number": 2}
    assert node.claim() == []
    assert put(node, 3, "replace", priority=9) == first
    (chunk,) = node.claim()
    assert [job.payload for job in chunk.jobs] == [{"number": 3}]
    assert node.job(first)["priority"] == 9


def test_again_takes_the_payload_and_keeps_its_place(node: Master) -> None:
    """What is asked for later does not put it off; what is asked for sooner brings it on."""
    first = put(node, 1, "again")
    rank = node.job(first)["rank"]
    assert put(node, 2, "again", not_before=LATER) == first
    job = node.job(first)
    assert (job["state"], job["rank"], job["payload"]) == ("ready", rank, {"number": 2})
    late = put(node, 1, "again", "late", not_before=LATER)
    assert put(node, 2, "again", "late") == late
    assert node.job(late)["state"] == "ready"


@pytest.mark.parametrize("mode", ["again", "replace"])
def test_while_it_runs_one_more_follows(node: Master, mode: str) -> None:
    """With the last payload, however often it was asked for; not before the other has ended."""
    first = put(node, 1, mode)
    (chunk,) = node.claim()
    second = put(node, 2, mode)
    assert second != first
    assert put(node, 3, mode) == second
    assert node.waiting("unique") == [second]
    assert node.claim() == []
    node.complete(chunk)
    (chunk,) = node.claim()
    assert chunk.ids == [second]
    assert [job.payload for job in chunk.jobs] == [{"number": 3}]
    node.complete(chunk)
    assert (node.claim(), keys(node)) == ([], 0)


def test_what_follows_waits_for_its_own_moment(node: Master) -> None:
    """Debounced while it runs: the delay holds for the one that follows."""
    put(node, 1, "replace")
    (chunk,) = node.claim()
    second = put(node, 2, "replace", not_before=LATER)
    node.complete(chunk)
    assert node.waiting("time") == [second]


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "done"])
def test_however_it_ends_the_next_follows(node: Master, outcome: str) -> None:
    """A failure does not lose a change made meanwhile."""
    put(node, 1, "again")
    (chunk,) = node.claim()
    second = put(node, 2, "again")
    node.settle(chunk, outcome)
    assert node.claimed_ids() == [second]


def test_one_that_is_tried_again_holds_its_key(node: Master) -> None:
    """And takes newer payloads with all attempts, but not sooner than it would be tried again."""
    first = put(node, 1, "again")
    (chunk,) = node.claim()
    node.settle(chunk, "retry", delay=1000, error="x")
    for number in (2, 3):
        assert put(node, number, "again") == first
        assert (node.job(first)["waiting_for"], node.job(first)["attempt"]) == ("time", 0)
        assert numbers(node) == [number]


@pytest.mark.parametrize("mode", ["again", "replace"])
def test_a_retry_has_what_was_enqueued_meanwhile(node: Master, mode: str) -> None:
    """With all attempts, which it spends then; what follows runs afterwards."""
    first = put(node, 1, mode)
    (chunk,) = node.claim()
    second = put(node, 2, mode)
    retried = {"job_id": first, "outcome": "retry", "delay": 0, "error": "x"}
    settled = "select freed from txqueue.settle(%s, %s)"
    for attempt in (0, 1):
        outcome = json.dumps([{**retried, "assignment": chunk.assignment}])
        # The node claims at once, as the first retry takes what is ready.
        assert node.value(settled, node.incarnation, outcome) == (attempt == 0)
        assert numbers(node) == [2, 2]
        assert (node.job(first)["attempt"], node.job(second)["waiting_for"]) == (attempt, "unique")
        (chunk,) = node.claim()
        assert chunk.ids == [first]
    node.complete(chunk)
    assert node.claimed_ids() == [second]


def test_a_retry_has_nothing_that_is_not_due(node: Master) -> None:
    """The newer one asked for a moment of its own."""
    put(node, 1, "replace")
    (chunk,) = node.claim()
    put(node, 2, "replace", not_before=LATER)
    node.settle(chunk, "retry", delay=1000, error="x")
    assert numbers(node) == [1, 2]


def test_a_retry_with_steps_keeps_its_payload(node: Master) -> None:
    """Their results are of that one."""
    put(node, 1, "again")
    (chunk,) = node.claim()
    step = {"job_id": chunk.ids[0], "assignment": chunk.assignment, "name": "a", "kind": "step"}
    written = "select count(*) from txqueue.write_steps(%s, %s)"
    assert node.value(written, node.incarnation, json.dumps([step])) == 1
    put(node, 2, "again")
    node.settle(chunk, "retry", delay=1000, error="x")
    assert numbers(node) == [1, 2]


def test_a_payload_that_replaces_a_failed_one_has_all_attempts(node: Master) -> None:
    """The attempts were spent on the former one."""
    first = put(node, 1, "replace")
    (chunk,) = node.claim()
    node.settle(chunk, "retry", delay=1000)
    assert put(node, 2, "replace") == first
    assert (node.job(first)["state"], node.job(first)["attempt"]) == ("ready", 0)


def test_cancelling_frees_the_key(node: Master) -> None:
    """The one that holds it and the one that follows, each for itself."""
    first = put(node, 1, "again")
    (chunk,) = node.claim()
    second = put(node, 2, "again")
    node.value("select cancelled from txqueue.cancel(%s, 'ann')", [second])
    third = put(node, 3, "again")
    assert third not in (first, second)
    node.complete(chunk)
    assert node.ready() == [third]
    node.value("select cancelled from txqueue.cancel(%s, 'ann')", [third])
    assert keys(node) == 0


def test_one_that_dies_for_good_frees_the_key(node: Master) -> None:
    """Poison ends a job like anything else; the next claim takes the job that follows."""
    put(node, 1, "again")
    node.cursor.execute("update txqueue.job_ready set deaths = 4")
    (chunk,) = node.claim()
    second = put(node, 2, "again")
    node.release(chunk.assignment, died=True)
    assert node.states()["failed"] == 1
    assert node.claimed_ids() == [second]


def test_one_that_a_dead_node_held_keeps_its_key(node: Master) -> None:
    """It runs again, and what follows it still waits."""
    first = put(node, 1, "again")
    (chunk,) = node.claim()
    second = put(node, 2, "again")
    node.release(chunk.assignment)
    assert node.claimed_ids() == [first]
    assert node.waiting("unique") == [second]


def test_one_that_its_group_may_take_is_followed(node: Master) -> None:
    """A job that a completion may wait for is left as it is: the newer one comes behind it."""
    first = put(node, 1, "again", group="g")
    second = put(node, 2, "again", group="g")
    assert second != first
    assert put(node, 3, "again", group="g") == second
    for job_id, number in ((first, 1), (second, 3)):
        (chunk,) = node.claim()
        assert (chunk.ids, chunk.jobs[0].payload) == ([job_id], {"number": number})
        node.complete(chunk)


def test_a_failed_one_takes_its_key_again_when_it_runs_again(node: Master) -> None:
    """Unless another has it by now: then it stays as it is."""
    first = put(node, 1, "reject")
    (chunk,) = node.claim()
    node.settle(chunk, "failed")
    second = put(node, 2, "reject")
    retry = "select retried, refused from txqueue.retry(%s, 'ann')"
    node.cursor.execute(retry, ([first],))
    assert node.cursor.fetchall() == [([], [first])]
    (chunk,) = node.claim()
    assert (chunk.ids, node.complete(chunk)) == ([second], 1)
    node.cursor.execute(retry, ([first],))
    assert node.cursor.fetchall() == [([first], [])]
    with pytest.raises(psycopg2.Error, match="same unique key"):
        put(node, 3, "reject")


def test_many_at_once_keep_their_order(node: Master) -> None:
    """Those with the same key get the same number, those without one each its own."""
    other = {"unique": "b", "unique_mode": "again"}
    ids = node.enqueue({"unique": "z"}, {}, {"unique": "z"}, other, {"payload": {"n": 1}, **other})
    assert ids[0] == ids[2]
    assert ids[3] == ids[4]
    assert len(set(ids)) == 3
    assert node.job(ids[4])["payload"] == {"n": 1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("\"unique\" => ''", "1 to 1000 characters"),
        ("\"unique\" => 'k', unique_mode => 'never'", "no such unique_mode"),
        ("unique_mode => 'again'", "the job has none"),
        ('options => \'{"as_of": "2026-11-27T12:00Z"}\'', "the job has none"),
        ("options => '{\"once_for\": 60}'", "the job has none"),
        ("\"unique\" => 'k', options => '[]'", "options is not a JSON object"),
        ("\"unique\" => 'k', after => '{}'", "cannot wait for others"),
    ],
)
def test_what_makes_no_sense_is_refused(node: Master, options: str, said: str) -> None:
    """Before anything is written."""
    with pytest.raises(psycopg2.Error, match=said) as caught:
        node.value(f"select txqueue.enqueue('test.kind', '{{}}', {options})")
    assert caught.value.pgcode == "TXQ01"


def test_what_is_about_a_key_is_refused_without_one_among_many(node: Master) -> None:
    """As in a call of one."""
    for wrong in ({"options": {"as_of": "2026-11-27T12:00Z"}}, {"unique_mode": "keep"}):
        with pytest.raises(psycopg2.Error, match="the job has none"):
            node.enqueue({}, wrong)
    assert node.states() == {}


def test_a_change_that_is_rolled_back_leaves_the_key_free(node: Master, open_one: Master) -> None:
    """The next enqueue or heartbeat gets it at once."""
    put(node, 1, "again")
    (chunk,) = node.claim()
    put(open_one, 2, "again")
    node.complete(chunk)
    open_one.connection.rollback()
    third = put(node, 3, "again")
    assert node.claimed_ids() == [third]
    put(open_one, 4, "again")
    open_one.connection.rollback()
    node.value("select owned from txqueue.heartbeat(%s, 0)", node.incarnation)
    assert node.value("select count(*) from txqueue.late_end") == 0


def test_a_pending_one_that_is_being_changed_is_not_taken(node: Master, open_one: Master) -> None:
    """It runs with the change, or without it if that is rolled back, but not before it is known."""
    first = put(node, 1, "again")
    assert put(open_one, 2, "again") == first
    assert node.claim() == []
    open_one.connection.commit()
    (chunk,) = node.claim()
    assert chunk.jobs[0].payload == {"number": 2}


def test_what_an_open_transaction_holds_leaves_nothing_behind(
    node: Master, open_one: Master
) -> None:
    """However often it is looked at meanwhile: a master does at every claim."""
    put(node, 1, "again")
    (chunk,) = node.claim()
    second = put(open_one, 2, "again")
    node.complete(chunk)
    before = node.column("select ctid::text from txqueue.late_end")
    assert len(before) == 1
    for _ in range(3):
        assert node.claim() == []
    assert node.column("select ctid::text from txqueue.late_end") == before
    open_one.connection.commit()
    assert node.claimed_ids() == [second]


def test_who_looks_at_once_with_another_leaves_it_to_be_looked_at(
    node: Master, open_one: Master, dsn: str
) -> None:
    """Two masters look: the one that finds nothing free does not say that there is nothing."""
    put(node, 1, "again")
    (chunk,) = node.claim()
    second = put(open_one, 2, "again")
    node.complete(chunk)
    with master(dsn, "third") as third:
        third.connection.autocommit = False
        assert third.claim() == []
        assert node.claim() == []
        third.connection.commit()
    open_one.connection.commit()
    assert node.claimed_ids() == [second]


@pytest.mark.parametrize("mode", ["keep", "reject", "replace", "again"])
def test_a_follow_up_with_the_key_of_its_job_runs_after_it(node: Master, mode: str) -> None:
    """The transaction that enqueues it also completes the job that holds the key."""
    first = put(node, 1, mode)
    (chunk,) = node.claim()
    node.connection.autocommit = False
    node.value("select set_config('txqueue.ending_job', %s, true)", str(first))
    second = put(node, 2, mode)
    assert second != first
    node.value(
        "select txqueue.complete_one(%s, %s, %s, null)", node.incarnation, chunk.assignment, first
    )
    node.connection.commit()
    assert node.claimed_ids() == [second]
    node.connection.commit()


def test_only_the_job_that_ends_lets_another_follow(node: Master) -> None:
    """Elsewhere the running job stands for both."""
    first = put(node, 1)
    node.claim()
    assert put(node, 2) == first
    node.value("select set_config('txqueue.ending_job', %s, false)", str(first + 1))
    assert put(node, 3) == first
