"""History as Parquet: archived before it is dropped, verified, and read again."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tests.db.damage import LARGE, LOST, large_json, lose_large_values
from tests.db.masters import Master, master
from tests.db.past import LEAF, LEAVES, NOON, fill, leaves, read
from txqueue.archive.reading import archived_jobs
from txqueue.archive.storage import ArchiveStorage
from txqueue.archive.writing import archive
from txqueue.cli.history import SHOWN
from txqueue.errors import ArchiveUnavailable, ConfigurationError
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads import history
from txqueue.store.reads.history import PastDays, about_archived, next_step


@pytest.fixture
def node(migrated_database18: str) -> Iterator[Master]:
    """A session on a database of the test's own, with a day of the past."""
    with master(migrated_database18) as session:
        for state in ("done", "cancelled"):
            session.cursor.execute(LEAVES.format(state))
        yield session


@pytest.fixture
def session(node: Master, migrated_database18: str) -> Iterator[Session]:
    """The connection that archives."""
    with Session(migrated_database18) as session:
        yield session


def test_a_day_is_archived_whole_and_then_dropped(
    node: Master, session: Session, tmp_path: Path
) -> None:
    """Every column of every job is in the file, as any reader of Parquet sees it."""
    rows = fill(node, 5000)
    done = archive(session, str(tmp_path))
    assert [(one.state, one.jobs, one.outcome) for one in done] == [
        ("cancelled", 0, "dropped"),
        ("done", 5000, "dropped"),
    ]
    assert leaves(node) == []
    assert read(done[1].path) == rows
    assert done[1].path == str(tmp_path / "done" / "2020-01-01.parquet")
    noted = "select jobs, checksum from txqueue.archived where leaf = %s"
    node.cursor.execute(noted, (LEAF,))
    assert node.cursor.fetchall() == [(5000, done[1].checksum)]
    assert archive(session, str(tmp_path)) == []
    # Redacted payloads are in it too.
    assert Path(done[1].path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("column", [None, "payload", "error", "finished_at", "not_after", "weight"])
def test_what_is_not_verified_is_not_dropped(
    node: Master,
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    column: str | None,
) -> None:
    """A job less, or one value of one job that differs, is an error, and the day stays."""
    fill(node, 50)

    def altered(self: ArchiveStorage, path: str) -> Iterator[Any]:
        table = pq.read_table(path)
        if column is None:
            yield from table.slice(1).to_batches()
            return
        place = table.schema.names.index(column)
        values = table.column(column).to_pylist()
        wrong: dict[str, object] = {"payload": "{}", "error": "x", "weight": 2}
        values[17:18] = [wrong.get(column, NOON)] if values else []
        field = table.schema.field(column)
        yield from table.set_column(place, field, [pa.array(values, field.type)]).to_batches()

    monkeypatch.setattr(ArchiveStorage, "batches", altered)
    with pytest.raises(ArchiveUnavailable, match="does not hold the 50 jobs"):
        archive(session, str(tmp_path))
    assert LEAF in leaves(node)
    monkeypatch.undo()
    assert [(one.state, one.jobs) for one in archive(session, str(tmp_path))] == [("done", 50)]


def changing(node: Master, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Have the day changed after it has been written and before it is verified."""
    original: Callable[..., Any] = PastDays.end

    def end(self: PastDays, *arguments: Any) -> bool:
        node.cursor.execute(change)
        return bool(original(self, *arguments))

    monkeypatch.setattr(PastDays, "end", end)


@pytest.mark.parametrize(
    "change",
    [
        "delete from txqueue.job where job_id = 7",
        "update txqueue.job set error = 'other' where job_id = 7",
        "insert into txqueue.job select * from txqueue.job where job_id = 7",
        "select txqueue.retry('{7}', 'ann')",
    ],
)
def test_a_day_that_changes_meanwhile_is_archived_again(
    node: Master,
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    """A cancelled job that is retried meanwhile is neither lost nor duplicated."""
    fill(node, 50, "cancelled")
    changing(node, monkeypatch, change)
    assert [one.outcome for one in archive(session, str(tmp_path))] == ["changed", "dropped"]
    monkeypatch.undo()
    (again,) = archive(session, str(tmp_path))
    assert again.outcome == "dropped"
    assert len(read(again.path)) == again.jobs


def test_a_day_that_is_read_is_dropped_later(
    node: Master, session: Session, tmp_path: Path, migrated_database18: str
) -> None:
    """The next run drops it, without archiving it again unless it changed."""
    fill(node, 50)
    node.cursor.execute("update txqueue.setting set archive = %s", (str(tmp_path),))
    reader = psycopg2.connect(migrated_database18)
    reader.cursor().execute("select count(*) from txqueue.job_done")
    assert [one.outcome for one in archive(session)] == ["dropped", "in use"]
    assert LEAF in leaves(node)
    reader.close()
    assert f"-{LEAF}" in node.value("select txqueue.ensure_history()")
    assert LEAF not in leaves(node)


def test_retention_waits_for_the_archive(node: Master, session: Session, tmp_path: Path) -> None:
    """Where there is one, days that are kept no longer stay until they are in it."""
    fill(node, 50)
    node.cursor.execute("update txqueue.setting set archive = %s", (str(tmp_path),))
    assert [] == [each for each in node.value("select txqueue.ensure_history()") if each[0] == "-"]
    assert [one.outcome for one in archive(session)] == ["dropped"] * 2


def test_one_archives_at_a_time(
    node: Master, session: Session, tmp_path: Path, migrated_database18: str
) -> None:
    """Who comes second has nothing to do."""
    fill(node, 50)
    with Session(migrated_database18) as other, PastDays(other).alone() as is_alone:
        assert is_alone
        assert archive(session, str(tmp_path)) == []
    assert len(archive(session, str(tmp_path))) == 2


def test_the_duty_to_archive_has_a_time_limit(
    node: Master, session: Session, tmp_path: Path
) -> None:
    """A process that was killed keeps it for minutes; one that renews it keeps it."""
    fill(node, 50)
    first, second = (f"select txqueue.hold_archiving('{uuid4()}', %s)" for _ in range(2))
    assert [node.value(call, 300.0) for call in (first, second, first)] == [True, False, True]
    assert archive(session, str(tmp_path)) == []
    for until in ("now() - interval '1 s'", "now() + interval '1 day'"):
        node.cursor.execute(f"update txqueue.duty set until = {until} where name = 'archive'")
        assert node.value(second, 300.0)
    assert not node.value(first, 300.0)
    assert node.value(second, 0.0)
    assert len(archive(session, str(tmp_path))) == 2


def test_a_long_archiving_renews_its_duty(
    node: Master, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it writes and reads back; else another process would archive the same day."""
    monkeypatch.setattr(history, "TURN", 0.0)
    fill(node, 50)
    until = "select until from txqueue.duty where name = 'archive'"
    moments = [node.value(until)]
    archive(session, str(tmp_path), advance=lambda _: moments.append(node.value(until)))
    assert len(set(moments)) == 3


def test_an_attempt_that_was_overtaken_counts_no_more(node: Master) -> None:
    """Even if two archive at once: only the last one's file may stand for the day."""
    first = node.value("select txqueue.begin_archive(%s)", LEAF)
    second = node.value("select txqueue.begin_archive(%s)", LEAF)
    end, drop = "end_archive(%s, %s, '/a', 0, '')", "drop_archived(%s)"
    for attempt, is_valid in ((first, False), (second, True)):
        assert node.value(f"select txqueue.{end}", LEAF, attempt) is is_valid
        assert node.value(f"select txqueue.{drop}", LEAF) is is_valid
    assert node.value("select txqueue.begin_archive(%s)", LEAF) is None


def test_days_that_may_still_grow_are_not_archived(node: Master) -> None:
    """Today's never, nor one that is no day of history."""
    today = f"job_done_{datetime.now(UTC):%Y%m%d}"
    for leaf in (today, "job_failed", "setting", "pg_class", "x; drop table y"):
        assert node.value("select txqueue.begin_archive(%s)", leaf) is None
    due = (
        "select max(day) < (now() at time zone 'UTC')::date from txqueue.history_due('9999-01-01')"
    )
    assert node.value(due) is True


def test_the_worker_s_role_may_archive(node: Master, session: Session, tmp_path: Path) -> None:
    """The one that nodes have: it owns nothing."""
    fill(node, 50)
    session.rows("set role txqueue_worker")
    assert [one.outcome for one in archive(session, str(tmp_path))] == ["dropped"] * 2


@pytest.mark.parametrize(
    ("location", "said"),
    [
        (None, "there is no archive"),
        ("s3://key:secret@bucket/prefix", "has keys in it"),
        ("s3://bucket/a?no_such_option=1", "cannot be used for an archive"),
        ("gs://bucket/prefix", "cannot be used for an archive"),
    ],
)
def test_a_location_must_be_one(session: Session, location: str | None, said: str) -> None:
    """The error comes before anything is written."""
    with pytest.raises(ConfigurationError, match=said) as error:
        archive(session, location)
    assert "secret" not in str(error.value)


def test_an_archive_that_cannot_be_written_drops_nothing(
    node: Master, session: Session, tmp_path: Path
) -> None:
    """Such as one on a full or missing disk."""
    fill(node, 50)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveUnavailable, match="cannot be used"):
        archive(session, str(tmp_path / "file"))
    assert LEAF in leaves(node)


def test_pages_grow_and_shrink_with_what_they_hold() -> None:
    """Few large jobs at a time, many small ones."""
    assert next_step(64, 1000) == 128
    assert next_step(2048, 1000) == 2048
    assert next_step(64, 3_200_000_000) == 1
    assert next_step(1, 10**12) == 1


def test_a_day_with_a_damaged_job_is_archived(
    node: Master, session: Session, tmp_path: Path
) -> None:
    """What is lost stands in the file as the error, and the day is dropped as any other."""
    fill(node, 3)
    node.cursor.execute(
        f"update txqueue.{LEAF} set payload = %s, error = %s where job_id = 2",
        (large_json(), LARGE),
    )
    lose_large_values(node)
    done = archive(session, str(tmp_path))
    assert [(one.jobs, one.outcome) for one in done] == [(0, "dropped"), (3, "dropped")]
    rows = {row["job_id"]: row for row in pq.ParquetFile(done[1].path).read().to_pylist()}
    assert rows.keys() == {1, 2, 3}
    assert LOST in json.loads(rows[2]["payload"])["txqueue cannot read this"]
    assert LOST in rows[2]["error"]
    assert json.loads(rows[3]["payload"])["n"] == 3


# The archive in storage that speaks as S3: a real server, on this host.


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket of an S3 server of our own, as a location for archives."""
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("wb") as output:
        program = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
        server = subprocess.Popen(
            [sys.executable, "-u", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        url = said_url(server, log)
        put = urllib.request.Request(f"{url}/history", method="PUT")
        urllib.request.urlopen(put, timeout=60).close()
        yield f"s3://history/queue?endpoint_override={quote(url, safe='')}&region=us-east-1"
    finally:
        server.terminate()
        server.wait(60)


def said_url(server: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the server says where it listens."""
    deadline = time.monotonic() + 120
    while (said := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())) is None:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return said[0]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys where AWS's programs look for them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-seen")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_days_are_archived_in_a_bucket(
    node: Master, session: Session, bucket: str, keys: None
) -> None:
    """Of any storage that speaks as S3; they are found again, and equal."""
    rows = fill(node, 5000)
    node.cursor.execute("update txqueue.setting set archive = %s", (bucket,))
    (_, done) = archive(session)
    assert (done.outcome, done.path) == ("dropped", "history/queue/done/2020-01-01.parquet")
    filesystem, _ = fs.FileSystem.from_uri(bucket)
    assert read(done.path, filesystem) == rows
    since, until = NOON, NOON + timedelta(hours=1)
    days = session.find(about_archived("txqueue", since, until))
    found = archived_jobs(days, since, until, limit=10_000, filters={}, columns=SHOWN, unread=[])
    assert {row["job_id"] for row in found} == {row[0] for row in rows}


def test_a_bucket_that_is_away_drops_nothing(
    node: Master, session: Session, bucket: str, keys: None
) -> None:
    """The error says which, and shows no key."""
    fill(node, 50)
    with pytest.raises(ArchiveUnavailable, match="s3://no-such-bucket/queue") as error:
        archive(session, bucket.replace("history", "no-such-bucket", 1))
    assert "not-to-be-seen" not in str(error.value)
    assert LEAF in leaves(node)
