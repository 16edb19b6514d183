"""The archive of history in S3-compatible storage: a real server, on this host."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from pyarrow import fs

from tests.db.masters import Master, master
from tests.db.past import LEAF, LEAVES, NOON, fill, leaves, read
from txqueue.archive.reading import archived_jobs
from txqueue.archive.writing import archive
from txqueue.cli.history import SHOWN
from txqueue.errors import ArchiveUnavailable
from txqueue.store.inquiries.reader import Reader, Session
from txqueue.store.reads.history import about_archived


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
    days = Reader(session).find(about_archived("txqueue", since, until))
    found = archived_jobs(days, since, until, limit=10_000, filters={}, columns=SHOWN)
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
