"""``txqueue demo`` and ``txqueue bench``: small runs over the real road, and no trace of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import command_of, stat_of

PATIENCE = 240.0
SHARED = {"workload", "jobs", "seconds", "workers", "postgres", "txqueue", "synchronous_commit"}
COMMAND = [sys.executable, "-c", "from txqueue.cli import main; main()"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of the user's settings, and a folder of the test's own for all temporary ones."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TXQUEUE_")}
    return {**ours, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path.cwd())}


@pytest.fixture
def txqueue(
    dsn18: str, database18: str, environment: dict[str, str], tmp_path: Path
) -> Callable[..., Any]:
    """Call the command in a process of its own; returns what it prints as JSON."""

    def call(*words: str) -> Any:
        done = subprocess.run(
            [*COMMAND, *words, "--json"],
            env={**environment, "TXQUEUE_DSN": database18},
            cwd=tmp_path,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        with Session(database18) as session:
            assert session.value("select to_regnamespace('txqueue_bench') is null")
            assert session.value("select to_regrole('txqueue_bench_worker') is null")
        assert list(tmp_path.iterdir()) == []
        return json.loads(done.stdout)

    return call


@pytest.mark.slow("laboratory/txqueue_bench")
def test_drain(txqueue: Callable[..., Any]) -> None:
    """Every job ran once and is in history; the limit is of the same run."""
    result = txqueue("bench", "drain", "--jobs", "2000", "--workers", "2")
    assert result.keys() > SHARED
    assert (result["lost"], result["ran_more_than_once"], result["history"]) == (0, 0, 2000)
    assert result["ratio"] == pytest.approx(
        result["jobs_per_second"] / result["limit_per_second"], abs=0.01
    )


@pytest.mark.slow("laboratory/txqueue_bench")
def test_rescue(txqueue: Callable[..., Any]) -> None:
    """Jobs of a killed worker and of killed masters have all run again."""
    result = txqueue("bench", "rescue", "--lease", "1", "--workers", "1")
    assert result.keys() > SHARED
    assert (result["jobs"], result["lost"]) == (30, 0)
    assert result["master_seconds"] > 1
    assert min(result["worker_seconds"], result["neighbour_seconds"]) > 0


@pytest.mark.slow("laboratory/txqueue_bench")
def test_enqueue(txqueue: Callable[..., Any]) -> None:
    """Both ways are measured."""
    result = txqueue("bench", "enqueue", "--jobs", "2000")
    assert result.keys() > SHARED
    assert result["jobs"] > 2000
    assert min(result["one_at_a_time_per_second"], result["bulk_per_second"]) > 0


@pytest.mark.slow("laboratory/txqueue_bench")
@pytest.mark.parametrize(("road", "delivered"), [("direct", 30), ("claim", 0)])
def test_latency(road: str, delivered: int, txqueue: Callable[..., Any]) -> None:
    """Every job that was timed has started, on the road that was meant."""
    result = txqueue("bench", "latency", "--jobs", "30", "--workers", "1", "--road", road)
    assert result.keys() > SHARED
    assert (result["road"], result["started"]) == (road, 30)
    assert result["delivered"] == delivered
    assert 0 < result["p50_ms"] <= result["p95_ms"] <= result["p99_ms"] <= result["max_ms"]


@pytest.mark.slow("laboratory/txqueue_bench")
def test_steady(txqueue: Callable[..., Any]) -> None:
    """At the rate asked for, with what a job costs."""
    result = txqueue("bench", "steady", "--rate", "40", "--seconds", "1", "--workers", "1")
    assert result.keys() > SHARED
    assert (result["workload"], result["rate"], result["jobs"]) == ("steady", 40, 40)
    assert result["started"] == 40
    assert 0 < result["p50_ms"] <= result["p95_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert result["cpu_seconds_per_1000"] > 0


@pytest.mark.slow("laboratory/txqueue_bench")
def test_decay(txqueue: Callable[..., Any]) -> None:
    """With a snapshot held; the wave that warms up is not counted."""
    words = ("--jobs", "500", "--waves", "2", "--workers", "1", "--rounds", "2", "--held-snapshot")
    result = txqueue("bench", "decay", *words)
    assert result.keys() > SHARED
    assert (len(result["waves"]), result["held_snapshot"]) == (2, True)
    assert (result["rounds"], result["jobs"]) == (2, 2000)
    assert result["ratio"] > 0


@pytest.mark.slow("laboratory/txqueue_bench")
def test_demo(txqueue: Callable[..., Any]) -> None:
    """On a server of its own, whatever the environment names."""
    result = txqueue("demo", "--jobs", "1000", "--workers", "1")
    assert (result["jobs"], result["done"], result["failed"]) == (1000, 1000, 0)
    assert result["jobs_per_second"] > 0
    assert result["enqueue_per_second"] > 0


@pytest.mark.slow("laboratory/txqueue_bench")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_demo_that_is_ended_leaves_no_process(
    how: signal.Signals,
    environment: dict[str, str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """However it ends: neither server nor node nor worker outlives it, even just begun."""
    # What a shell runs in the background ignores SIGINT, and hands that down.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with subprocess.Popen(
        [*COMMAND, "demo", "--workers", "1"],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    ) as demo:
        until(lambda: demo.poll() is not None or any(tmp_path.glob("txqueue-demo-*/demo.log")))
        demo.send_signal(how)
        _, said = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == (-how if how is signal.SIGKILL else 130), said
    until(lambda: not any(users(tmp_path)), lambda: list(users(tmp_path)), pause=0.1)
    if how is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def until(
    condition: Callable[[], bool],
    seen: Callable[[], object] = lambda: None,
    pause: float = 0.001,
) -> None:
    """Wait for something that other processes do; if it does not happen, tell what is seen."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen in time: {seen()}"
        time.sleep(pause)


def users(folder: Path) -> Iterator[str]:
    """What the processes run whose temporary files are in the folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes():
                pid = int(process.name)
                yield f"{pid} {stat_of(pid)[:3]} {command_of(pid)}"
