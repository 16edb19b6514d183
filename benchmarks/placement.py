"""Which of two nodes gets heavy jobs: one at 65 % that serves one more queue, or one that is idle.

    python -m benchmarks.placement [jobs]

Runs a fresh embedded server, and two nodes with a worker of capacity 100 each, with and without
connections to each other. Prints for each weight how many of the jobs, 30 by default, the idle node
has run, and how long the slowest of them waited.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.work import Nothing, Waits
from txqueue.demo.environment import TemporarySchema
from txqueue.demo.node import RunningNode
from txqueue.embedded import EmbeddedServer
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate

WEIGHTS, LOAD, LIMIT = (10, 20, 25, 30), 65, 60.0
LEASE, PAUSE = "4", 0.2
RAN = """
    select coalesce(sum((node.name = 'idle')::int), 0)::int,
           max(extract(epoch from job.assigned_at - job.enqueued_at))::float
      from txqueue.job join txqueue.node_info as node using (node_id)
     where job.state = 'done' and job.weight = %s"""


def endpoint() -> str:
    """A free port of this host, on which a node listens for the other one."""
    with closing(socket.socket()) as trial:
        trial.bind(("127.0.0.1", 0))
        return f"tcp:{trial.getsockname()[1]}:interface=127.0.0.1"


def start(target: TemporarySchema, name: str, queues: str, *, has_links: bool) -> RunningNode:
    """A node of some queues that is not started yet."""
    links = {"TXQUEUE_LISTEN": endpoint()} if has_links else {}
    settings = {"TXQUEUE_QUEUES": queues, "TXQUEUE_LEASE": LEASE, **links}
    return RunningNode(target, "benchmarks.work", 1, name, settings)


def until(session: Session, question: str, answer: int) -> None:
    """Ask until the answer comes."""
    began = time.monotonic()
    while session.value(question) != answer:
        if time.monotonic() - began > LIMIT:
            raise TimeoutError(question)
        time.sleep(0.05)


@contextmanager
def two_nodes(dsn: str, *, has_links: bool) -> Iterator[Session]:
    """A loaded node and an idle one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        target = TemporarySchema(dsn, "txqueue", folder)
        session = stack.enter_context(target.session())
        session.rows("truncate txqueue.job, txqueue.node_info")
        stack.enter_context(start(target, "loaded", "default,more", has_links=has_links))
        for _ in range(LOAD):
            enqueue(session, Waits.work_type, {"seconds": LIMIT * 10}, queue="more")
        until(session, "select count(*) from txqueue.job_assigned", LOAD)
        stack.enter_context(start(target, "idle", "default", has_links=has_links))
        until(session, "select count(*) from txqueue.node_info where load = 0.65", 1)
        time.sleep(1.0)
        yield session
        session.rows(
            "select txqueue.cancel(array(select job_id from txqueue.job_assigned), 'bench')"
        )
        until(session, "select count(*) from txqueue.job_assigned", 0)


def enqueue(session: Session, work_type: str, payload: dict[str, Any], **terms: object) -> None:
    """Enqueue one job from SQL."""
    names = "".join(f", {name} => %s" for name in terms)
    session.rows(
        f"select txqueue.enqueue(%s, %s{names})", (work_type, json.dumps(payload), *terms.values())
    )


def placed(session: Session, weight: int, jobs: int) -> dict[str, Any]:
    """Enqueue jobs of a weight one after the other; tell where they ran."""
    for _ in range(jobs):
        enqueue(session, Nothing.work_type, {}, weight=weight)
        time.sleep(PAUSE)
    live = "select count(*) from txqueue.job where state <> 'done' and queue = 'default'"
    until(session, live, 0)
    idle, slowest = session.rows(RAN, (weight,))[0]
    return {"weight": weight, "idle": idle, "slowest": round(slowest, 2)}


def main(jobs: int = 30) -> None:
    """Measure, and print."""
    with EmbeddedServer() as dsn:
        migrate(dsn)
        found = {}
        for has_links in (False, True):
            with two_nodes(dsn, has_links=has_links) as session:
                name = "with --listen" if has_links else "without"
                found[name] = [placed(session, weight, jobs) for weight in WEIGHTS]
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
