"""A real Prometheus that scrapes a real node, with the queries of the dashboard for Grafana."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from twisted.internet.error import ConnectError

from tests.browser import Browser
from tests.cluster.app import FailsFirst, Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, ROOT, Nodes
from tests.cluster.peers import free_port
from tests.waiting import eventually
from txqueue import WorkQueue

pytestmark = pytest.mark.slow("txqueue/metrics", "packaging/prometheus", "packaging/grafana")

PACKAGING = ROOT / "packaging"
INTERVAL = "10s"
NO_NODE = {
    "exp_labels": {"severity": "critical"},
    "exp_annotations": {
        "summary": "No node is scraped, so no jobs run, or none are seen to.",
        "action": "Start nodes with --metrics, or find out why Prometheus does not reach them: see"
        " its targets.",
    },
}


@pytest.fixture(autouse=True)
def _needs_prometheus() -> None:
    if shutil.which("prometheus") is None and os.environ.get("TXQUEUE_TEST_REQUIRE") != "1":
        pytest.skip("no prometheus: apt-get install prometheus")


@contextmanager
def scraping(folder: Path, node_port: int) -> Iterator[Browser]:
    """Run a Prometheus that scrapes a node each second; yield a client for its API."""
    port = free_port()
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(PACKAGING / "prometheus" / "alerts.yml")],
                "scrape_configs": [
                    {
                        "job_name": "txqueue",
                        "static_configs": [{"targets": [f"localhost:{node_port}"]}],
                    }
                ],
            }
        )
    )
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=localhost:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield Browser(port)
    finally:
        process.terminate()
        process.wait(PATIENCE)


async def results(prometheus: Browser, query: str) -> list[Any]:
    """Return what a query of Prometheus finds; nothing while it is not up."""
    try:
        answer = await prometheus.get(f"/api/v1/query?{urlencode({'query': query})}")
    except ConnectError:
        return []
    said: Any = {"status": "starting"}
    if answer.text.startswith("{"):
        said = json.loads(answer.text)
    assert said["status"] != "error", said
    return list(said["data"]["result"]) if said["status"] == "success" else []


def panels() -> list[tuple[str, str]]:
    """Return the title and the query of each panel of the dashboard for Grafana."""
    dashboard = json.loads((PACKAGING / "grafana" / "txqueue.json").read_text())
    return [
        (panel["title"], target["expr"].replace("$__rate_interval", INTERVAL))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


async def test_each_query_of_the_dashboard_returns_data(
    nodes: Nodes, queue: WorkQueue, db: Database, tmp_path: Path
) -> None:
    """With done, failed and waiting jobs no panel is empty, and the counts are the database's."""
    port = free_port()
    await nodes.start("--metrics", f"tcp:{port}", "--workers", "2").up(2)
    await queue.enqueue_many([Noted(0.0)] * 200)
    await queue.enqueue_many([FailsFirst(9)] * 10)

    async def are_done() -> bool:
        return bool(
            db.row("select count(*) = 200 as all from txqueue.job where state = 'done'")["all"]
        )

    await eventually(are_done, PATIENCE)
    # A node notes a minute when it starts, and asks half a minute later whether the next is due.
    db.rows("delete from txqueue.minute_mark returning at")
    with scraping(tmp_path, port) as prometheus:
        for title, query in panels():

            async def has_data(query: str = query) -> list[Any]:
                await queue.enqueue(FailsFirst(9))
                return await results(prometheus, query)

            try:
                await eventually(has_data, 60)
            except AssertionError:
                pytest.fail(f"the panel {title} has no data: {query}")
        done = f'txqueue_jobs_finished_total{{outcome="done",work_type="{Noted.work_type}"}}'
        [found] = await results(prometheus, done)
        assert float(found["value"][1]) == 200
        [up] = await results(prometheus, "txqueue_database_up")
        assert float(up["value"][1]) == 1


def test_the_alert_rules_are_valid() -> None:
    """Prometheus's own checker accepts them."""
    rules = PACKAGING / "prometheus" / "alerts.yml"
    result = subprocess.run(
        ["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "8 rules found" in result.stdout


def test_that_no_node_is_scraped_is_an_alert(tmp_path: Path) -> None:
    """Neither one that is down nor none at all."""
    rules = str(PACKAGING / "prometheus" / "alerts.yml")
    others = [{"series": "up", "values": "0x10"}]
    alert = {"alertname": "TxqueueNoNode", "eval_time": "5m", "exp_alerts": [NO_NODE]}
    tests = [
        {"interval": "1m", "input_series": series, "alert_rule_test": [alert]}
        for series in ([], others)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"rule_files": [rules], "tests": tests}))
    result = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


async def test_a_node_whose_metrics_are_valid(nodes: Nodes) -> None:
    """Prometheus's own checker finds nothing to complain of in a scrape."""
    port = free_port()
    await nodes.start("--metrics", f"tcp:{port}").up(1)
    scrape = (await Browser(port).get("/metrics")).text
    result = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
