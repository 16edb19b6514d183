"""Functions as work, with middleware, on a real node."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.cluster.app_of_tasks import add, in_thread, multiply
from tests.cluster.conftest import LIMIT, cluster
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node
from tests.waiting import within
from txqueue import WorkItem, WorkQueue

APP, MIDDLEWARE = "tests.cluster.app_of_tasks", "tests.cluster.app_of_middleware"


@pytest.fixture(scope="module", autouse=True)
def tasked(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that has the tasks."""
    with cluster(shared_db, Path(tmp_path_factory.mktemp("nodes"))) as nodes:
        node = nodes.start("--queues", "default,other", "--app", APP, "--app", MIDDLEWARE)
        pytest_twisted.blockon(within(LIMIT, node.up()))
        yield node


async def result(queue: WorkQueue, work: WorkItem) -> object:
    """Enqueue work, and wait for its result."""
    return await queue.wait(await queue.enqueue(work), timeout=PATIENCE)


async def test_a_task_runs_in_its_runtime_with_middleware(shared_queue: WorkQueue) -> None:
    """Coroutines of both kinds, and a function in a thread, which has middleware there, too."""
    assert await result(shared_queue, add.work(2, right=3)) == {f"{APP}.add": 5}
    assert await result(shared_queue, in_thread.work("text")) == {"tasks.in_thread": ["text", 1]}
    job_id = await shared_queue.enqueue(multiply.work(4, right=5))
    found = await shared_queue.wait(job_id, timeout=PATIENCE)
    assert found == {f"{APP}.multiply": [job_id, 20]}


def test_sql_enqueues_a_task_by_its_name(shared_db: Database) -> None:
    """As any work type; its queue is published."""
    job_id = shared_db.enqueue(f"{APP}.multiply", '{"left": 1, "right": 2}')
    assert shared_db.job(job_id)["queue"] == "other"
