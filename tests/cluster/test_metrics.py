"""The metrics of a real node."""

from prometheus_client.parser import text_string_to_metric_families

from tests.browser import Browser
from tests.cluster.app import Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.peers import free_port
from tests.waiting import eventually
from txqueue import WorkQueue


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The samples of a scrape, by name and the values of their labels in the labels' order."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_the_counts_of_a_scrape_are_those_of_the_database(
    nodes: Nodes, queue: WorkQueue
) -> None:
    """Runs of both workers are counted once each, also in the histogram of their times."""
    port = free_port()
    await nodes.start("--metrics", f"tcp:{port}", "--workers", "2").up(2)
    await queue.enqueue_many([Noted(0.0)] * 500)
    browser = Browser(port)

    async def has_counted() -> bool:
        found = samples((await browser.get("/metrics")).text)
        return found.get(("txqueue_jobs_finished_total", "done", Noted.work_type)) == 500

    await eventually(has_counted, PATIENCE)
    found = samples((await browser.get("/metrics")).text)
    assert found["txqueue_jobs_started_total", Noted.work_type] == 500
    assert found["txqueue_job_run_seconds_count", Noted.work_type] == 500
    assert found["txqueue_deliveries_total", "claim"] == 500
    assert found["txqueue_database_up",] == 1
    assert found["txqueue_worker_processes",] == 2
    assert found["txqueue_claim_seconds_count",] > 0
    assert found["txqueue_jobs_enqueued_total",] >= 500
    assert found["txqueue_queue_nodes", "default"] == 1


RUNS = "select pid, count(distinct job_id) as runs from run group by pid"


async def test_workers_that_have_run_enough_jobs_are_replaced(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """None runs more; no job runs twice or is lost, no run is uncounted, and old processes end."""
    port = free_port()
    options = ("--workers", "2", "--capacity", "4", "--worker-jobs", "20")
    node = await nodes.start("--metrics", f"tcp:{port}", *options).up(2)
    ids = await queue.enqueue_many([Noted(0.02)] * 200)
    await eventually(lambda: db.states() == {"done": 200}, PATIENCE)
    assert db.runs() == db.runs("end") == dict.fromkeys(ids, 1)
    pids = {row["pid"]: row["runs"] for row in db.rows(RUNS)}
    assert len(pids) > 5
    assert max(pids.values()) <= 20
    browser = Browser(port)

    async def has_counted() -> bool:
        found = samples((await browser.get("/metrics")).text)
        is_whole = found["txqueue_workers_replaced_total", "jobs"] >= len(pids) - 2
        finished = found.get(("txqueue_jobs_finished_total", "done", Noted.work_type))
        return is_whole and finished == 200

    await eventually(has_counted, PATIENCE)
    await eventually(lambda: len(node.workers) == 2, PATIENCE)
    assert samples((await browser.get("/metrics")).text)["txqueue_worker_deaths_total",] == 0
