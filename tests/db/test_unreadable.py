"""Jobs whose payload the version of a class that one node has cannot read: left to other nodes."""

import json
import random
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.db.masters import Claimed, Master, master
from tests.db.stored import Taken
from tests.db.test_explain import explained
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.queue_state import about_all

KIND = "test.kind"
OLD, NEW = f"{KIND}#old", f"{KIND}#new"
SAID = "the payload does not fit test.kind: extra fields found (size)"


def runs(node: Master, *versions: str, unreadable_for: float = 3600.0) -> None:
    """Register the node anew with its version of the kind, and report as its master does."""
    kind = {"work_type": KIND, "queue": "default", "priority": 4, "weight": 1}
    node.cursor.execute(
        "select incarnation from txqueue.register_node"
        "((select name from txqueue.node_info where node_id = %s),"
        " 'host', 1, null, 10, 100, '{default}', %s, '', null)",
        (node.node_id, json.dumps([{**kind, "version": each} for each in versions])),
    )
    node.incarnation = node.cursor.fetchone()[0]  # type: ignore[index]
    report(node, unreadable_for=unreadable_for)


def report(node: Master, **said: object) -> None:
    """Send a heartbeat."""
    node.value("select owned from txqueue.heartbeat(%s, 0, %s)", node.incarnation, json.dumps(said))


def take(node: Master, version: str) -> Claimed:
    """Claim as a node whose workers have this version of the kind."""
    return node.take(work_types=[KIND, version])


def unread(node: Master, chunk: Taken, version: str) -> None:
    """Report that a worker could not read the payloads of a chunk."""
    assert node.settle(chunk, "unread", version=version, error=SAID) == chunk.ids


def refuse(node: Master, version: str) -> list[int]:
    """Claim, and report that none of the jobs could be read; return their numbers."""
    taken = take(node, version)
    for chunk in taken.chunks:
        unread(node, chunk, version)
    return taken.ids


def overdue(node: Master) -> None:
    """Have the time of all unread jobs pass."""
    node.cursor.execute("update txqueue.unread_job set until = now(), checked_at = 'epoch'")


@pytest.fixture
def newer(other: Master) -> Master:
    """A node with the new version of the kind."""
    runs(other, NEW)
    return other


def test_a_job_that_the_old_node_cannot_read_is_left_to_the_new_one(
    node: Master, newer: Master
) -> None:
    """At once, without an attempt; the old node passes over it from then on."""
    runs(node, OLD)
    (job_id,) = node.enqueue({"group": "g"})
    assert refuse(node, OLD) == [job_id]
    job = node.job(job_id)
    assert (job["state"], job["attempt"], job["error"]) == ("ready", 0, SAID)
    assert take(node, OLD).ids == []
    (chunk,) = take(newer, NEW).chunks
    assert newer.complete(chunk) == 1


def test_the_ordinary_claim_of_the_old_node_passes_over_it(node: Master, newer: Master) -> None:
    """And takes the jobs behind it."""
    runs(node, OLD)
    first, second = node.enqueue({}, {})
    (chunk,) = take(node, OLD).chunks
    unread(node, Taken(chunk.lane, chunk.assignment, chunk.jobs[:1]), OLD)
    node.release(chunk.assignment)
    node.cursor.execute(
        "select chunk, is_ordinary from txqueue.claim_ready(%s, %s, '{default}', %s, 8)",
        (node.node_id, node.incarnation, [KIND, OLD]),
    )
    assert [
        f"[{second}," in text and f"[{first}," not in text and is_ordinary
        for text, is_ordinary in node.cursor.fetchall()
    ] == [True]


def test_a_job_that_no_node_can_read_waits_for_one(node: Master) -> None:
    """Out of the way of claims, until a node with another version of its type registers."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    assert node.waiting("version") == [job_id]
    told = explained(node, job_id)
    assert told.reason == "unreadable"
    assert told.detail.startswith(f"no live node can read it (tried by node): {SAID}; it fails in")
    with master(node.connection.dsn, "other") as other:
        runs(other, NEW)
        assert take(other, NEW).ids == [job_id]


def test_a_node_of_another_queue_or_state_is_no_reader(node: Master, newer: Master) -> None:
    """Neither one that drains, nor a silent one."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    newer.value("select txqueue.drain_node('other', 'me')")
    refuse(node, OLD)
    assert node.waiting("version") == [job_id]
    newer.value("select txqueue.undrain_node('other', 'me')")
    node.cursor.execute("update txqueue.unread_job set checked_at = 'epoch'")
    report(node)
    assert node.ready() == [job_id]


def test_a_reader_that_is_gone(node: Master, newer: Master) -> None:
    """Its jobs wait again, so that claims need not pass over them."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    assert node.ready() == [job_id]
    newer.value("select txqueue.leave(%s, 'stopped')", newer.incarnation)
    node.cursor.execute("update txqueue.unread_job set checked_at = 'epoch'")
    report(node)
    assert node.waiting("version") == [job_id]


def test_the_time_to_wait_for_a_reader(node: Master) -> None:
    """Once it is over the job fails for good, and what waited for it ends."""
    runs(node, OLD, unreadable_for=60)
    (job_id,) = node.enqueue({})
    (child,) = node.enqueue({"after": [job_id]})
    refuse(node, OLD)
    left = node.value("select until - since from txqueue.unread_job")
    assert left.total_seconds() == 60
    overdue(node)
    report(node)
    job = node.job(job_id)
    assert (job["state"], job["attempt"], job["error"]) == ("failed", 1, SAID)
    assert node.job(child)["state"] == "cancelled"
    assert node.column("select job_id from txqueue.unread_job") == []
    assert node.column("select error from txqueue.failed_attempt") == [SAID]


def test_no_time_to_wait(node: Master, newer: Master) -> None:
    """With 0 a job fails at once, unless a live node has another version."""
    runs(node, OLD, unreadable_for=0)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    assert node.job(job_id)["state"] == "ready"
    runs(newer, NEW, unreadable_for=0)
    refuse(newer, NEW)
    assert node.job(job_id)["state"] == "failed"


def test_a_reader_with_a_backlog_does_not_fail_the_job(node: Master, newer: Master) -> None:
    """The time only counts while no node can read it."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    overdue(node)
    report(node)
    assert node.ready() == [job_id]


def test_a_version_that_tries_again_waits_longer(node: Master) -> None:
    """As it may where a replaced worker has another version than the other workers of its node."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    report(node, type_versions=[OLD, NEW], unreadable_for=3600)
    node.cursor.execute("update txqueue.unread_job set checked_at = 'epoch'")
    report(node, type_versions=[OLD, NEW], unreadable_for=3600)
    # Its workers differ, so that the claim names no version.
    (chunk,) = node.take().chunks
    unread(node, chunk, OLD)
    assert node.waiting("time") == [job_id]
    assert 0.5 < node.value("select extract(epoch from not_before - now()) from txqueue.job") < 30
    overdue(node)
    node.cursor.execute("update txqueue.job_waiting set not_before = now()")
    (chunk,) = node.take().chunks
    unread(node, chunk, OLD)
    assert node.job(job_id)["state"] == "failed"


def test_a_retry_lets_each_version_try_again(node: Master) -> None:
    """Of a waiting job and of a failed one, whose time begins anew."""
    runs(node, OLD)
    (job_id,) = node.enqueue({"options": {"timeout": 5}})
    for state in ("waiting", "failed"):
        assert refuse(node, OLD) == [job_id]
        if state == "failed":
            overdue(node)
            report(node)
        assert node.job(job_id)["state"] == state
        node.value("select retried from txqueue.retry(%s, 'me')", [job_id])
        job = node.job(job_id)
        assert (job["state"], job["options"]) == ("ready", {"timeout": 5})
    node.settle(take(node, OLD).chunks[0], "failed", error="no")
    again = node.value("select txqueue.repeat(%s, 'me')", job_id)
    assert "unread" not in (node.job(again)["options"] or {})


def test_an_edit_lets_each_version_try_the_new_payload(node: Master) -> None:
    """At once: the one that it could not read is gone."""
    runs(node, OLD)
    (job_id,) = node.enqueue({"options": {"timeout": 5}})
    assert refuse(node, OLD) == [job_id]
    node.value("select changed from txqueue.edit(%s, %s, 'me')", [job_id], '{"n": 2}')
    job = node.job(job_id)
    assert (job["state"], job["options"]) == ("ready", {"timeout": 5})
    assert node.value("select count(*) from txqueue.unread_job") == 0
    assert take(node, OLD).ids == [job_id]


def test_unread_jobs_can_be_cancelled_and_replaced(node: Master) -> None:
    """Like other waiting ones; what is left of them is deleted."""
    runs(node, OLD)
    key = {"unique": "k", "unique_mode": "replace"}
    first, second = node.enqueue({}, key)
    refuse(node, OLD)
    node.value("select cancelled from txqueue.cancel(%s, 'me')", [first])
    assert node.job(first)["state"] == "cancelled"
    assert node.enqueue({**key, "payload": {"a": 1}}) == [second]
    (chunk,) = take(node, OLD).chunks
    assert (chunk.ids, chunk.jobs[0].payload) == ([second], {"a": 1})
    assert node.settle(chunk, "done") == [second]
    node.cursor.execute("update txqueue.unread_job set checked_at = 'epoch'")
    report(node)
    assert node.column("select job_id from txqueue.unread_job") == []


def test_peers_do_not_pass_it_to_a_node_that_cannot_read_it(node: Master, newer: Master) -> None:
    """Otherwise it would move to and fro."""
    runs(node, OLD)
    node.enqueue({})
    refuse(node, OLD)
    (chunk,) = take(newer, NEW).chunks
    passed = newer.column(
        "select jobs from txqueue.pass_on(%s, %s, null, %s)",
        newer.incarnation,
        [chunk.assignment],
        node.incarnation,
    )
    assert passed == []


def test_no_job_coalesces_one_that_was_not_read(node: Master, newer: Master) -> None:
    """Its handler could not read it either."""
    runs(node, OLD)
    node.enqueue({})
    refuse(node, OLD)
    (running,) = node.enqueue({})
    (chunk,) = take(node, OLD).chunks
    assert chunk.ids == [running]
    taken = node.column(
        "select taken_id from txqueue.coalesce_into(%s, %s, %s, 10, true)",
        node.incarnation,
        chunk.assignment,
        running,
    )
    assert taken == []


def test_the_counts_of_live_jobs_have_those_that_no_node_can_read(node: Master) -> None:
    """From which the status makes a warning."""
    runs(node, OLD)
    node.enqueue({}, {})
    refuse(node, OLD)
    live = node.column("select to_jsonb(live) from txqueue.live_jobs as live")
    assert [(each["waiting_for"], each["jobs"]) for each in live] == [("version", 2)]


# A model of two versions of a class in a deploy.

READERS = {"both": {OLD, NEW}, "old": {OLD}, "new": {NEW}, "none": set[str]()}


class Deploy:
    """Some nodes of each version, and what each job needs to be read.

    Args:
        node: A session that enqueues.
        chance: Decides what happens.
    """

    def __init__(self, node: Master, chance: random.Random) -> None:
        self.node = node
        self.chance = chance
        self.needs: dict[int, set[str]] = {}
        self.nodes: list[tuple[Master, str]] = []

    def joins(self, session: Master, version: str) -> None:
        """A node starts."""
        runs(session, version)
        self.nodes.append((session, version))

    def enqueues(self) -> None:
        """Producers of either version enqueue jobs, some of one group."""
        kinds = self.chance.choices(list(READERS), (4, 3, 6, 1), k=self.chance.randint(1, 9))
        groups = [self.chance.choice([None, None, "g"]) for _ in kinds]
        ids = self.node.enqueue(*({"group": group} for group in groups))
        self.needs |= {job_id: READERS[kind] for job_id, kind in zip(ids, kinds, strict=True)}

    def works(self) -> None:
        """A node claims, and its worker reads what it can."""
        session, version = self.chance.choice(self.nodes)
        for chunk in session.take(self.chance.randint(1, 9), work_types=[KIND, version]).chunks:
            for job in chunk.jobs:
                one = Taken(chunk.lane, chunk.assignment, [job])
                if version in self.needs[job.job_id]:
                    session.settle(one, "done")
                else:
                    unread(session, one, version)

    def restarts(self) -> None:
        """A node is restarted with another version; its jobs return."""
        place = self.chance.randrange(len(self.nodes))
        session, _ = self.nodes[place]
        version = self.chance.choice([OLD, NEW])
        runs(session, version)
        self.nodes[place] = session, version

    def beats(self) -> None:
        """A node sends a heartbeat, long after the last look."""
        self.node.cursor.execute("update txqueue.unread_job set checked_at = 'epoch'")
        report(self.chance.choice(self.nodes)[0], unreadable_for=3600)

    def retries(self) -> None:
        """An operator retries some of the jobs."""
        some = self.chance.sample(sorted(self.needs), min(3, len(self.needs)))
        self.node.value("select retried from txqueue.retry(%s, 'me')", some)

    def drain(self) -> None:
        """Have each node work until no job is left for it."""
        for _ in range(20):
            self.beats()
            for _ in range(8):
                self.works()

    def unfinished(self) -> set[int]:
        """The jobs that are not done."""
        return {job_id for job_id in self.needs if self.node.job(job_id)["state"] != "done"}


@pytest.mark.parametrize("seed", range(6))
def test_two_versions_of_a_class_side_by_side(seed: int, node: Master, dsn: str) -> None:
    """Whatever happens, each job that a live node can read is done, and none fails for good."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        deploy = Deploy(node, chance)
        for name, version in (("a", OLD), ("b", OLD), ("c", NEW)):
            deploy.joins(stack.enter_context(master(dsn, name)), version)
        node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
        acts: list[Callable[[], None]] = [
            deploy.enqueues,
            deploy.works,
            deploy.restarts,
            deploy.beats,
            deploy.retries,
        ]
        for act in chance.choices(acts, (3, 8, 1, 3, 1), k=60):
            act()
        deploy.nodes = [
            (session, version)
            for (session, _), version in zip(deploy.nodes, (OLD, NEW, NEW), strict=True)
        ]
        for session, version in deploy.nodes:
            runs(session, version)
        deploy.drain()
        nobodys = {job_id for job_id, needs in deploy.needs.items() if not needs}
        assert deploy.unfinished() == nobodys
        assert set(node.waiting("version")) | set(node.waiting("time")) == nobodys
        overdue(node)
        deploy.beats()
        assert {job_id for job_id in nobodys if node.job(job_id)["state"] != "failed"} == set()


@pytest.mark.parametrize("tries", [1, 2])
def test_a_node_whose_workers_differ_may_read_the_job(node: Master, tries: int) -> None:
    """Its explanation says so, before and after the version that could not read it tries again."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    if tries == 2:
        report(node, type_versions=[OLD, NEW], applications=["aa", "bb"])
        node.cursor.execute("update txqueue.unread_job set checked_at = 'epoch'")
        report(node, type_versions=[OLD, NEW], applications=["aa", "bb"])
        unread(node, node.take().chunks[0], OLD)
    else:
        # The job still waits for a version: the next look of the node ends that.
        report(node, type_versions=[OLD, NEW], applications=["aa", "bb"])
        node.cursor.execute("update txqueue.job set state = 'waiting', waiting_for = 'version'")
    told = explained(node, job_id)
    assert told.reason == "unreadable"
    assert "no live node" not in told.detail
    assert "(node, application aa, bb)" in told.detail
    assert "restart the node" in told.remedy


def test_status_tells_a_payload_in_clear_from_one_of_another_version(
    node: Master, dsn: str
) -> None:
    """As explain does: a newer version of the class is the remedy of only one of them."""
    version = f"{KIND}#encrypted-one"
    runs(node, version)
    in_clear, sealed = (
        node.enqueue({"payload": payload})[0] for payload in ({"size": 1}, {"encrypted": "gAAA"})
    )
    unread(node, take(node, version).chunks[0], version)
    node.publish(KIND, policy={"encrypted": True})
    with Session(dsn) as session:
        warned = session.find(about_all("txqueue"))["warnings"]
    found = [(each["kind"], each["remedy"]) for each in warned if "job" in each["what"]]
    assert sorted(found) == [
        ("clear_payloads", explained(node, in_clear).remedy),
        ("unreadable_jobs", explained(node, sealed).remedy),
    ]


def test_a_type_that_is_gone_is_one_warning(node: Master, dsn: str) -> None:
    """Although jobs of it wait for a version, which no other node can have either."""
    runs(node, OLD)
    (job_id,) = node.enqueue({})
    refuse(node, OLD)
    node.cursor.execute("update txqueue.node_info set work_types = '{other.kind}'")
    with Session(dsn) as session:
        warned = session.find(about_all("txqueue"))["warnings"]
    assert [each["kind"] for each in warned if KIND in each["what"]] == ["unknown_type"]
    told = explained(node, job_id)
    assert told.detail.startswith(f"no live node has the work type {KIND}; it fails in ")
    assert told.remedy == "start a node whose --app defines it"
