"""The server of the comparison with other queues: slow and far away."""

import shutil
import time

import psycopg2
import pytest

from benchmarks.rivals.cloud import CONDITIONS, commit_ms, ensure_slow, server
from txqueue.errors import EmbeddedUnavailable
from txqueue_torture.server import short_folder

pytestmark = pytest.mark.slow("benchmarks/rivals")

DISK, NETWORK = 4.0, 6.0


def test_a_slow_disk_is_slow_and_so_is_a_far_server() -> None:
    """A commit takes both, a query the network alone; nothing of a large answer is lost."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    with short_folder() as folder, server(folder, disk=DISK, network=NETWORK) as (one, dsn):
        assert DISK <= commit_ms(one.dsn)
        assert DISK + NETWORK <= commit_ms(dsn)
        connection = psycopg2.connect(dsn)
        try:
            with connection.cursor() as cursor:
                began = time.monotonic()
                cursor.execute("select repeat('x', 20000000)")
                assert cursor.fetchone() == ("x" * 20_000_000,)
                assert time.monotonic() - began >= NETWORK / 1000
        finally:
            connection.close()


def test_a_disk_that_is_not_slow_is_refused(dsn: str) -> None:
    """Before anything is measured, with what to do."""
    with pytest.raises(EmbeddedUnavailable, match=r"although the disk should be 5000 ms slower"):
        ensure_slow(dsn, 5000)


def test_commits_wait_for_a_late_standby() -> None:
    """As long as the condition lasts; afterwards they do not."""
    with short_folder() as folder, server(folder) as (one, _):
        with CONDITIONS["standby"](one):
            assert commit_ms(one.dsn, 3) >= 20
        with one.session() as session:
            assert session.value("show synchronous_standby_names") == ""
