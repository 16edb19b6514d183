"""Changes made while jobs run, at random: the last one of each subject is always processed."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.db.masters import Master, master
from tests.db.stored import Taken

UPDATES, SUBJECTS, UPDATERS, MASTERS = 1000, 12, 4, 2
LIMIT = 240.0
TABLES = """
    create table app (subject int primary key, version int not null);
    insert into app select number, 0 from generate_series(0, 11) as number
"""
CHANGE = "update app set version = version + 1 where subject = %s returning version"
AGAIN = (
    "select txqueue.enqueue("
    " 'test.kind', jsonb_build_object('subject', %s::int, 'version', %s::int),"
    " \"unique\" => 's' || %s, unique_mode => 'again')"
)


class Progress:
    """What has been processed, and what runs."""

    def __init__(self) -> None:
        self.read: dict[int, int] = {}
        self.told: dict[int, int] = {}
        self.running: set[int] = set()
        self.runs = 0
        self.turn = threading.Lock()

    def begin(self, subject: int) -> None:
        """No two jobs of one subject run at a time."""
        with self.turn:
            assert subject not in self.running
            self.running.add(subject)
            self.runs += 1

    def end(self, subject: int, read: int | None, told: int) -> None:
        """Record the version that the job read, and the one in its payload; none if it failed."""
        with self.turn:
            self.running.remove(subject)
            if read is not None:
                self.read[subject], self.told[subject] = read, told


def update(dsn: str, seed: int, updates: int) -> None:
    """Change subjects and ask for them, each in a transaction that may last or be rolled back."""
    chance = random.Random(seed)
    with master(dsn, f"updater {seed}") as session:
        session.connection.autocommit = False
        for _ in range(updates):
            for subject in sorted(chance.sample(range(SUBJECTS), chance.choice([1, 1, 2]))):
                version = session.value(CHANGE, subject)
                session.value(AGAIN, subject, version, subject)
            if chance.random() < 0.2:
                session.value("select pg_sleep(%s)", chance.random() / 50)
            if chance.random() < 0.1:
                session.connection.rollback()
            else:
                session.connection.commit()


def perform(session: Master, chunk: Taken, progress: Progress, chance: random.Random) -> None:
    """Process jobs: read what there is, and complete them, or fail, or die with them."""
    payloads = [job.payload for job in chunk.jobs]
    for payload in payloads:
        progress.begin(payload["subject"])
    versions = "select version from app where subject = %s"
    read = [session.value(versions, payload["subject"]) for payload in payloads]
    fate = chance.random()
    for payload, version in zip(payloads, read, strict=True):
        done = fate >= 0.2
        progress.end(payload["subject"], version if done else None, payload["version"])
    if fate < 0.1:
        session.release(chunk.assignment)
    elif fate < 0.2:
        session.settle(chunk, "retry", delay=0.01)
    elif fate < 0.6:
        session.settle(chunk, "done", result=1)
    else:
        session.complete(chunk)


def work(dsn: str, seed: int, progress: Progress, is_over: Callable[[], bool]) -> None:
    """Claim and process until nothing is left."""
    chance = random.Random(seed)
    with master(dsn, f"master {seed}") as session:
        while not is_over() or session.states().keys() - {"done"}:
            for chunk in session.claim(3):
                perform(session, chunk, progress, chance)


def test_the_last_change_is_always_processed(node: Master, dsn: str) -> None:
    """A thousand changes against running jobs: the last one is read, and told, by a later run."""
    node.cursor.execute(TABLES)
    progress = Progress()
    with ThreadPoolExecutor(UPDATERS + MASTERS) as threads:
        updaters = [
            threads.submit(update, dsn, number, UPDATES // UPDATERS) for number in range(UPDATERS)
        ]
        are_over = lambda: all(each.done() for each in updaters)  # noqa: E731 - one line
        masters = [
            threads.submit(work, dsn, number, progress, are_over) for number in range(MASTERS)
        ]
        for each in (*updaters, *masters):
            each.result(LIMIT)
    node.cursor.execute("select subject, version from app order by subject")
    last = dict(node.cursor.fetchall())
    assert progress.read == last
    assert progress.told == last
    assert sum(last.values()) > UPDATES / 2
    assert node.states() == {"done": node.value("select count(*) from txqueue.job")}
    node.value("select owned from txqueue.heartbeat(%s, 0)", node.incarnation)
    assert node.value("select count(*) from txqueue.unique_job") == 0
    assert node.value("select count(*) from txqueue.late_end") == 0
