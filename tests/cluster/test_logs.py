"""The log of a real node, and what is kept of it with failed attempts."""

import json
import re
from collections import Counter
from importlib.metadata import version
from typing import Any

import pytest

from tests.browser import Browser
from tests.cluster.app_of_handlers import Handling
from tests.cluster.app_of_logs import (
    Callback,
    CardDeclined,
    Charging,
    Coroutine,
    Long,
    Plain,
    Secret,
    Task,
    Thread,
)
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.peers import free_port
from tests.waiting import eventually
from txqueue import WorkItem, WorkQueue

APP = Coroutine.__module__
# The level, job and text of what a handler has printed, in a log of text.
PRINTED = re.compile(r"^\S+ (\w+) \S+ job (\d+) std(?:out|err): (.*)$", re.MULTILINE)
CLASS = f"{APP}.{CardDeclined.__name__}"


def lines_of(log: str) -> list[dict[str, Any]]:
    """A log as a program reads it, which knows nothing but JSON."""
    return [json.loads(line) for line in log.splitlines()]


def found(lines: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The lines that say something."""
    return [line for line in lines if text in line["message"]]


def run_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """Which run a line names."""
    return line.get("job"), line.get("work_type"), line.get("attempt")


async def test_every_line_is_json_and_those_of_handlers_name_their_jobs(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Whatever they log with, in each runtime, also while others run; from start to end."""
    node = await nodes.start("--workers", "1", "--log-format", "json", app=APP).up()
    works: list[WorkItem] = [Coroutine(), Coroutine(), Task(), Task(), Thread()]
    ids = await queue.enqueue_many(works)
    await queue.enqueue_many([Callback()] * 20)
    await eventually(lambda: db.states() == {"failed": 2, "done": 23}, PATIENCE)
    await eventually(lambda: node.log.count("failed for good") == 2, PATIENCE)
    node.stop()
    lines = lines_of(node.log)
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    for job_id, work in zip(ids, works, strict=True):
        runs = (1, 2) if isinstance(work, Coroutine) else (1,)
        own = found(lines, f"{type(work).__name__.lower()} {job_id}")
        assert {run_of(line) for line in own} == {
            (job_id, type(work).work_type, run) for run in runs
        }
    [broken, _] = found(lines, "\N{PILE OF POO}")
    assert broken["traceback"].endswith("KeyError: 'lost'")
    assert len(found(lines, "wrong %d")) == 2
    ends = found(lines, "failed for good")
    assert {run_of(line) for line in ends} == {(each, Coroutine.work_type, 2) for each in ids[:2]}
    assert all(f"{CLASS}: no money" in line["traceback"] for line in ends)
    assert "job" not in lines[0]
    started = lines[0]["message"]
    assert f"txqueue {version('txqueue')}, node {node.name}: database " in started
    assert "schema txqueue, queues default, 1 worker, " in started
    assert "work types: tests.cluster.app_of_logs.Callback, " in started
    # Rather none than that of another job.
    assert [run_of(line) for line in found(lines, "callback ")] == [(None, None, None)] * 20


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_failed_attempts_have_their_class_and_the_last_of_their_log(
    nodes: Nodes, db: Database, queue: WorkQueue, log_format: str
) -> None:
    """For programs, and on the job's page; work that is redacted has none."""
    port = free_port()
    node = nodes.start(
        *("--workers", "1", "--web", f"tcp:{port}"), app=APP, TXQUEUE_LOG_FORMAT=log_format
    )
    await node.up()
    [job_id, secret] = await queue.enqueue_many([Coroutine(), Secret("4111")])
    await eventually(lambda: db.states() == {"failed": 2}, PATIENCE)
    job, hidden = await queue.job(job_id), await queue.job(secret)
    assert [each.error_class for each in (*job.attempts, *hidden.attempts)] == [CLASS] * 3
    for attempt in job.attempts:
        assert attempt.log is not None
        kept = [line.split(" ", 1)[1] for line in attempt.log.splitlines()]
        assert kept == [
            f"info {APP}: coroutine {job_id} before",
            f"info log_legacy: coroutine {job_id} after",
        ]
    assert hidden.attempts[0].log is None
    page = (await Browser(port).get(f"/jobs/{job_id}")).text
    assert "Log of attempt 2" in page
    assert f"coroutine {job_id} after" in page
    assert CLASS in page
    if log_format == "text":
        assert f" info {node.name} job {job_id} {APP}: coroutine {job_id} before\n" in node.log


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_unfinished_output_stays_with_its_job(
    nodes: Nodes, db: Database, queue: WorkQueue, log_format: str
) -> None:
    """And what is printed is not kept with attempts, in either format."""
    node = await nodes.start("--workers", "1", "--log-format", log_format, app=APP).up()
    [charging, plain] = await queue.enqueue_many([Charging("4111"), Plain()])
    await eventually(lambda: db.states() == {"failed": 1, "done": 1}, PATIENCE)
    node.stop()
    [attempt] = (await queue.job(plain)).attempts
    assert attempt.log is not None
    assert attempt.log.split(" ", 1)[1] == f"info {APP}: plain is logged"
    if log_format == "json":
        lines = [line for line in lines_of(node.log) if line["logger"] in ("stdout", "stderr")]
        said = {(line["job"], line["message"], line["level"]) for line in lines}
    else:
        said = {(int(job), text, level) for level, job, text in PRINTED.findall(node.log)}
    assert said == {
        (charging, "charging 4111", "info"),
        (charging, "warned 4111", "info"),
        (plain, "plain to stdout", "info"),
        (plain, "plain to stderr", "info"),
        (plain, "plain is unfinished", "info"),
    }


async def test_lines_of_several_processes_stay_whole_in_a_pipe(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Though each is longer than what a pipe takes at once."""
    options = "--workers", "3", "--capacity", "5", "--log-format", "json"
    nodes.is_piped = True
    node = await nodes.start(*options, app=APP).up(3)
    workers = node.workers
    ids = await queue.enqueue_many([Long() for _ in range(30)])
    await eventually(lambda: db.states() == {"done": 30}, PATIENCE)
    node.stop()
    # What is in the pipe is still to be read.
    await eventually(lambda: "Server Shut Down." in node.log, PATIENCE)
    long = found(lines_of(node.log), "long ")
    assert Counter(line["job"] for line in long) == dict.fromkeys(ids, 40)
    written = [line["message"].split() for line in long]
    assert {int(pid) for _, _, pid, *_ in written} == workers
    for line, (_, job, _, filling, cut) in zip(long, written, strict=True):
        assert (int(job), cut) == (line["job"], "[...]")
        assert set(filling) == {f"{line['job'] % 10}"}


async def test_a_handler_of_the_application_writes_information(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """What it prints has the level of all that is printed, and is kept once, as a record."""
    node = await nodes.start(
        *("--workers", "1", "--log-format", "json"), app=Handling.__module__
    ).up()
    job_id = await queue.enqueue(Handling())
    await eventually(lambda: db.states() == {"failed": 1}, PATIENCE)
    node.stop()
    [line] = found(lines_of(node.log), f"handled {job_id}")
    assert (line["level"], line["logger"], line["job"]) == ("info", "stderr", job_id)
    [attempt] = (await queue.job(job_id)).attempts
    assert attempt.log is not None
    assert attempt.log.split(" ", 1)[1] == f"info shop: handled {job_id}"
