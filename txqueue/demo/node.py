"""A real node as a subprocess, which is always stopped at the end; the queue is filled
and drained.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from attrs import define, field, frozen

from txqueue.demo import FOLDER_VARIABLE, twistd
from txqueue.demo.environment import Advance, Pace, TemporarySchema
from txqueue.errors import TxqueueError
from txqueue.model.work_item import WorkItem
from txqueue.node.settings import policy_row
from txqueue.store.enqueueing.calls import batches
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import Process, WatchedProcess

START_LIMIT = 60.0
STOP_LIMIT = 30.0
ASK_EVERY = 0.05
TAIL_LINES = 15

_REGISTERED = "select count(*) from {schema}.node_info where pid = %s and state = 'alive'"


class NodeFailed(TxqueueError):
    """The node did not start, ended by itself, or did not stop."""


@define(eq=False)
class RunningNode:
    """A node to try or measure: ``twistd -n txqueue`` in a separate process group.

    Args:
        target: The node's database and schema, and the folder of its log.
        app: The module with the work items.
        workers: How many worker processes.
        name: The node's name.
        settings: Additional environment variables.
    """

    _target: TemporarySchema
    _app: str
    _workers: int
    _name: str = "demo"
    _settings: Mapping[str, str] = field(factory=dict)
    _is_killed: bool = field(default=False, init=False)
    _watched: WatchedProcess = field(init=False)

    @property
    def _process(self) -> Process:
        return self._watched.process

    @property
    def _log(self) -> Path:
        return self._target.folder / f"{self._name}.log"

    def __enter__(self) -> Self:
        """Start the node and wait until it has registered.

        Raises:
            NodeFailed: When the node ends or takes too long.
        """
        with self._log.open("wb") as log:
            self._watched = WatchedProcess.start(
                self._command(),
                env=self.environment(),
                cwd=self._target.folder,
                stdout=log,
                stderr=log,
            )
        try:
            self._await_registered()
        except BaseException:
            self._watched.stop(STOP_LIMIT)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop the node; if it does not stop in time, kill it and raise an error."""
        status = self._watched.stop(STOP_LIMIT)
        # twistd exits by the signal that it has received.
        if status not in (0, -signal.SIGTERM) and kind is None and not self._is_killed:
            raise self._failure(f"the node ended with status {status}")

    def kill(self) -> None:
        """Kill the master, but not its workers, as the kernel does if memory is short."""
        self._is_killed = True
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The master's process, and the process group of the whole node."""
        return self._process.pid

    @property
    def endpoint(self) -> str:
        """The node's admin endpoint, at which clients join."""
        return f"unix:{self._target.folder / self._name}.sock"

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that uses the node's queue and folder of records.

        It is this process's, without the user's settings of nodes, and with the DSN.
        """
        ours = {name: text for name, text in os.environ.items() if not name.startswith("TXQUEUE_")}
        return ours | {
            "TXQUEUE_DSN": self._target.dsn,
            "TXQUEUE_SCHEMA": self._target.schema,
            "TXQUEUE_STATE_DIR": str(self._target.folder),
            FOLDER_VARIABLE: str(self._target.folder),
            **self._settings,
        }

    def ensure_alive(self) -> None:
        """Check that the node still runs.

        Raises:
            NodeFailed: When the node has ended.
        """
        if self._process.poll() is not None:
            raise self._failure(f"the node ended with status {self._process.returncode}")

    def _command(self) -> list[str]:
        node = ["--app", self._app, "--workers", str(self._workers), "--name", self._name]
        return [*twistd(), *node]

    def _await_registered(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        question = _REGISTERED.format(schema=self._target.schema)
        with self._target.session() as session:
            while not session.value(question, (self._process.pid,)):
                self.ensure_alive()
                if time.monotonic() > deadline:
                    raise self._failure(f"the node did not register within {START_LIMIT:g} s")
                time.sleep(ASK_EVERY)

    def _failure(self, what: str) -> NodeFailed:
        lines = self._log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        sys.stderr.write("".join(f"  node: {line}\n" for line in lines))
        return NodeFailed(what, "see its output above")


@frozen
class Span:
    """The outcomes and the time span of all jobs of a demo or measurement.

    Attributes:
        done: How many jobs are done.
        failed: How many jobs failed for good.
        seconds: The time from the first assignment to the last end.
    """

    done: int
    failed: int
    seconds: float


def publish(session: Session, *kinds: type[WorkItem]) -> None:
    """Publish work types, as a node does, so that jobs can be enqueued before a node starts."""
    rows = [policy_row(kind) for kind in kinds]
    session.rows(f"select {session.schema}.publish(%s)", (json.dumps(rows),))


def enqueue_all(session: Session, works: Iterable[WorkItem], advance: Advance) -> list[int]:
    """Enqueue work items in one transaction, a thousand per round trip; return their numbers."""
    ids: list[int] = []
    with session.transaction():
        for text in batches(works, {}):
            ids += session.enqueue_text(text)
            advance(len(ids))
    return ids


def wait_until_done(
    session: Session, node: RunningNode, jobs: int, advance: Advance, pace: Pace | None = None
) -> None:
    """Wait until no job is waiting, ready or assigned.

    Args:
        session: The session for the queries.
        node: The node, which must stay alive meanwhile.
        jobs: How many jobs there were at first.
        advance: Called with how many jobs have ended.
        pace: Limits how often the database is queried.

    Raises:
        NodeFailed: When the node ends.
    """
    pace = pace or Pace()
    while left := _asked(session, pace):
        advance(max(jobs - left, 0))
        node.ensure_alive()
        pace.rest()
    advance(jobs)


def _asked(session: Session, pace: Pace) -> int:
    pace.asking()
    return session.live_jobs()


def outcome(session: Session) -> Span:
    """Return the outcomes of all jobs of the schema."""
    row: tuple[Any, ...] = session.rows(
        "select count(*) filter (where state = 'done'), count(*) filter (where state = 'failed'),"
        " extract(epoch from max(finished_at) - min(assigned_at))"
        f" from {session.schema}.job where state in ('done', 'failed')"
    )[0]
    return Span(row[0], row[1], float(row[2] or 0))
