"""Tasks of Django on a real node: results, errors, attempts, contexts and signals."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import cluster
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node
from tests.django_shop.configuration import set_up_django

pytestmark = pytest.mark.django


@pytest.fixture(scope="module")
def node(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that runs the tasks of the project."""
    with cluster(shared_db, Path(tmp_path_factory.mktemp("nodes"))) as nodes:
        node = nodes.start(
            *("--queues", "default,mail"),
            app="txqueue.django",
            DJANGO_SETTINGS_MODULE="tests.django_shop.settings",
        )
        wait_for(lambda: node.info.get("pid") == node.pid)
        yield node


@pytest.fixture
def tasks(node: Node, shared_db: Database) -> Any:
    """The tasks, enqueued by this process."""
    set_up_django(shared_db.dsn)
    from tests.django_shop import tasks

    return tasks


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until it does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finished(result: Any) -> Any:
    """Wait until a task is finished; return its result."""

    def is_finished() -> bool:
        result.refresh()
        return bool(result.is_finished)

    wait_for(is_finished)
    return result


def test_a_task_returns_its_result(tasks: Any, node: Node) -> None:
    """With the times, and the node that ran it."""
    result = finished(tasks.add.enqueue(2, right=3))
    assert (result.return_value, result.status, result.errors) == (5, "SUCCESSFUL", [])
    assert (result.args, result.kwargs) == ([2], {"right": 3})
    assert (result.worker_ids, result.attempts) == ([node.name], 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at


def test_a_plain_function_runs_in_a_thread(tasks: Any) -> None:
    """Outside of any transaction."""
    result = finished(tasks.reports_transaction.enqueue())
    assert result.return_value == [False, False]


def test_a_coroutine_uses_the_database(tasks: Any) -> None:
    """Through the threads of Django."""
    result = finished(tasks.reads.enqueue(41))
    assert result.return_value == [42, 1]


def test_a_coroutine_that_ends_in_a_query_closes_its_connection(
    tasks: Any, shared_db: Database
) -> None:
    """Once the query has ended, although the task is cancelled again before that."""
    waiting = "select from pg_locks where locktype = 'advisory' and classid = 0 and objid = 7"
    shared_db.execute("select pg_advisory_lock(7)")
    result = finished(tasks.queries_for_long.enqueue(7))
    assert (result.status, len(shared_db.rows(waiting))) == ("FAILED", 2)
    shared_db.execute("select pg_advisory_unlock(7)")
    wait_for(lambda: not shared_db.rows(waiting))


def test_a_node_says_what_it_lacks(shared_db: Database, tmp_path: Path) -> None:
    """Without settings there is no project."""
    with cluster(shared_db, tmp_path) as nodes:
        node = nodes.start(app="txqueue.django")
        assert node.ended() == 1
        assert "DJANGO_SETTINGS_MODULE is not set" in node.log
        assert "Traceback" not in node.log
