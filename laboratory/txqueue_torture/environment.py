"""The environment of a scenario: a database, nodes, clients, and faults."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, field

from txqueue_torture.database import Database
from txqueue_torture.history import SUFFIX, History, lines_of, read_history
from txqueue_torture.node import TortureClient, TortureNode, free_port, until
from txqueue_torture.processes import Leash
from txqueue_torture.recorder import DSN_VARIABLE, FOLDER_VARIABLE, NODE_VARIABLE, Recorder
from txqueue_torture.strays import Strays

__all__ = ["FaultInProgress", "ScenarioFailed", "Testbed"]

T = TypeVar("T")

APP = "txqueue_torture.work"
LEASE = 3.0
DRAINED_WITHIN = 60.0
ASK_EVERY, READ_EVERY = 0.1, 0.3
# How long a job may stay assigned to a node that lacks it: two heartbeats, which are half a lease,
# and the seconds between two checks or reports.
STRAY_LEASES, STRAY_MARGIN = 0.5, 4.0


class ScenarioFailed(Exception):
    """A scenario could not be completed."""


@define
class FaultInProgress:
    """A fault while it is injected.

    Attributes:
        evidence: What proves that the fault happened, set by the scenario.
        pids: The processes that the fault hits; the scenario may name them more exactly.
    """

    evidence: str = ""
    pids: set[int] = field(factory=set)


class Testbed:
    """The environment in which one scenario runs: its database, nodes, clients and records.

    Args:
        folder: The folder of the scenario's records and its nodes' files.
        schema: The name of txqueue's schema.
        scale: Multiplies a scenario's rounds, jobs or times: 1 by default, 10 with ``--long``.
        lease: The nodes' lease: seconds of silence after which a node is presumed dead.

    Attributes:
        figures: The numbers that the scenario has measured, by name.
        failures: The scenario's own requirements that were not met.
    """

    def __init__(
        self, folder: Path, schema: str = "txqueue", scale: float = 1, lease: float = LEASE
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.scale = scale
        self.lease = lease
        self.figures: dict[str, Any] = {}
        self.failures: list[str] = []
        self.nodes: list[TortureNode] = []
        self.clients: list[TortureClient] = []
        self._leash = Leash()
        self._undo = ExitStack()
        self._database: Database | None = None
        self._clock_dsn = ""
        self._recorder: Recorder | None = None
        self._is_drained = False
        self._strays: Strays | None = None

    def use(self, dsn: str, *, has_our_clock: bool = False) -> None:
        """Use a database; a scenario that starts its own server calls this first.

        Args:
            dsn: The database's DSN, without a proxy.
            has_our_clock: Whether its servers have this host's clock, so that the records need no
                answer of a server that hangs.
        """
        self._database = Database(dsn, self.schema)
        self._database.prepare()
        self._clock_dsn = "" if has_our_clock else dsn
        self._recorder = Recorder(self.folder, "ground", self._clock_dsn)
        self._strays = Strays(self._database.session)
        self._strays.start()

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Enter a context, such as a server or a proxy, that stays open until the scenario ends."""
        return self._undo.enter_context(context)

    @property
    def database(self) -> Database:
        """The database, without a proxy in between."""
        if self._database is None:
            raise ScenarioFailed("this scenario has not said which database to use")
        return self._database

    @property
    def dsn(self) -> str:
        """The DSN of the database without a proxy."""
        return self.database.dsn

    def start_node(
        self,
        name: str,
        *,
        workers: int = 2,
        capacity: int = 4,
        lease: float | None = None,
        listen: bool | str = False,
        dsn: str | None = None,
        app: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> TortureNode:
        """Start a node; call ``wait_up()`` to wait for it.

        Args:
            name: The node's name; the name of an ended node restarts it.
            workers: How many worker processes the node has.
            capacity: The weight that each worker runs at a time.
            lease: The node's lease in seconds; by default the testbed's.
            listen: Whether the node listens for peers on this host, or the endpoint to listen on.
            dsn: The DSN that the node uses; by default the testbed's.
            app: More modules of work items.
            env: Additional environment variables.
            options: Additional command-line options.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        words = ["--name", name, "--workers", str(workers), "--capacity", str(capacity)]
        words += [word for module in (APP, *app) for word in ("--app", module)]
        if listen:
            place = listen if isinstance(listen, str) else f"tcp:{free_port()}:interface=127.0.0.1"
            words += ["--listen", place]
        settings = {
            "TXQUEUE_LEASE": f"{self.lease if lease is None else lease:g}",
            "TXQUEUE_STATE_DIR": str(folder),
            NODE_VARIABLE: name,
            **(env or {}),
        }
        environment = self._environment(dsn, settings)
        node = TortureNode(
            self._leash,
            name,
            folder,
            workers=workers,
            options=[*words, *options],
            environment=environment,
            session=self.database.session,
        )
        self.nodes.append(node)
        return node

    def start_client(
        self,
        *,
        rate: float,
        kinds: Sequence[str],
        count: int | None = None,
        dsn: str | None = None,
        node: str | TortureNode | None = None,
        app: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        together: int = 1,
    ) -> TortureClient:
        """Start a client that enqueues until it is stopped or has enqueued `count` jobs.

        Args:
            rate: Enqueues per second.
            kinds: The names of the kinds of work that the client enqueues, in turn; a kind's
                argument follows a colon, as in ``slow:2``.
            count: How many jobs to enqueue; None for no limit.
            dsn: The DSN that the client uses; by default the testbed's.
            node: The node that the client joins; by default none.
            app: Modules that register more kinds of work.
            env: Additional environment variables.
            together: How many jobs of a kind without options it enqueues in one transaction.
        """
        plan = {
            "name": f"c{len(self.clients) + 1}",
            "kinds": list(kinds),
            "rate": rate,
            "count": count,
            "node": node.endpoint if isinstance(node, TortureNode) else node or "",
            "app": list(app),
            "together": together,
        }
        environment = self._environment(dsn, env or {})
        client = TortureClient(self._leash, self.folder, environment, plan)
        self.clients.append(client)
        return client

    @contextmanager
    def fault(
        self,
        kind: str,
        *,
        nodes: Sequence[TortureNode] | None = None,
        frozen: bool = False,
        snapshot: bool = True,
        still: bool = False,
    ) -> Iterator[FaultInProgress]:
        """Record a fault that the block injects; the block sets ``evidence`` of the value.

        Args:
            kind: The fault's name; if it contains ``kill``, the processes in ``pids`` die.
            nodes: The nodes that the fault hits; None for all.
            frozen: Whether the fault stops processes that resume later.
            snapshot: Whether to record the jobs that the nodes hold; only with ``still``.
            still: Whether to stop the nodes' processes during the block, so that the jobs that
                they hold do not change.
        """
        hurt = [node for node in nodes or self.nodes if node.is_running]
        record = FaultInProgress(pids={pid for node in hurt for pid in node.pids()})
        began, assigned = time.monotonic(), None
        if still:
            _signal_all(hurt, signal.SIGSTOP)
        try:
            if snapshot and still:
                assigned = sorted(self.database.held_by([node.name for node in hurt]))
            yield record
        finally:
            if still:
                _signal_all(hurt, signal.SIGCONT)
            self._write(
                "fault",
                kind=kind,
                nodes=None if nodes is None else [node.name for node in nodes],
                pids=sorted(record.pids),
                frozen=frozen,
                evidence=record.evidence,
                assigned=assigned,
                **{"from": began, "to": time.monotonic()},
            )

    def figure(self, name: str, value: object) -> None:
        """Record a number that the scenario has measured, which the report shows."""
        self.figures[name] = value

    def expect(self, condition: object, text: str) -> None:
        """Require a condition; if it is false, its text is reported as a violation."""
        if not condition:
            self.failures.append(text)

    def expect_all_done(self) -> None:
        """Require that all jobs are done."""
        left = [job for job in self.history().jobs.values() if job.state != "done"]
        self.expect(not left, f"all jobs end done, but {left[:3]}")

    def wait(
        self, predicate: Any, text: str, within: float = 30.0, every: float = ASK_EVERY
    ) -> None:
        """Wait until a condition is true.

        Raises:
            ScenarioFailed: When it is not true in time; the text describes the condition.
        """
        if not until(predicate, within, every):
            raise ScenarioFailed(f"it did not happen within {within:g} s that {text}")

    def rest(self, seconds: float) -> None:
        """Sleep while clients, nodes and faults continue."""
        time.sleep(seconds)

    def flow(self, runs: int = 20, within: float = 60.0) -> None:
        """Wait until a number of further runs of jobs have started.

        Raises:
            ScenarioFailed: When they do not start in time.
        """
        before = self._begun()
        # Wait before reading all records again, as that takes CPU from the load.
        most = within * max(1.0, self.scale)
        self.wait(lambda: self._begun() >= before + runs, f"{runs} runs begin", most, READ_EVERY)

    def _begun(self) -> int:
        return sum(
            path.read_text("utf-8", "replace").count('"what":"start"')
            for path in self.folder.glob(f"*{SUFFIX}")
        )

    def drain(self, within: float = DRAINED_WITHIN) -> None:
        """Stop the clients, wait until no job is left, and stop the nodes."""
        if self._is_drained:
            return
        self._is_drained = True
        for client in self.clients:
            client.stop()
        healed = time.monotonic()
        # A schedule may enqueue another job just after the last one has ended.
        is_empty = until(lambda: not self.database.live_jobs(), within, ASK_EVERY)
        left = 0 if is_empty else self.database.live_jobs()
        self._write("drain", healed=healed, ended=time.monotonic(), left=left)
        for node in self.nodes:
            node.ensure_unharmed()
        for node in self.nodes:
            node.stop()
        self._expect_no_strays()

    def _expect_no_strays(self) -> None:
        """Check I11: no job stays assigned to a live node that does not hold it."""
        if self._strays is not None:
            self._strays.stop()
            self.figure("longest_stray", round(self._strays.longest, 1))
            longest = STRAY_LEASES * self.lease + STRAY_MARGIN
            self.expect(
                self._strays.longest <= longest,
                f"I11: for {self._strays.longest:.1f} s {self._strays.what}",
            )

    def history(self) -> History:
        """Return what the scenario's processes have recorded so far."""
        database = self.database
        lines = list(lines_of(self.folder))
        self.figures["lines"] = len(lines)
        return read_history(lines, database.final_jobs(), database.effects(), self.lease)

    def close(self) -> None:
        """Kill all processes and close all connections."""
        self._leash.close()
        if self._strays is not None:
            self._strays.stop()
        if self._recorder is not None:
            self._recorder.close()
        if self._database is not None:
            self._database.close()
        self._undo.close()

    def _environment(self, dsn: str | None, more: Mapping[str, str]) -> dict[str, str]:
        """Return this process's environment, without the user's node settings, and with the DSN."""
        ours = {name: text for name, text in os.environ.items() if not name.startswith("TXQUEUE_")}
        return ours | {
            "TXQUEUE_DSN": self.dsn if dsn is None else dsn,
            "TXQUEUE_SCHEMA": self.schema,
            FOLDER_VARIABLE: str(self.folder),
            DSN_VARIABLE: self._clock_dsn,
            **more,
        }

    def _write(self, what: str, **values: Any) -> None:
        assert self._recorder is not None
        self._recorder.write(what, **values)


def _signal_all(nodes: Sequence[TortureNode], number: signal.Signals) -> None:
    for node in nodes:
        # A process that was killed meanwhile need not be resumed.
        with suppress(ProcessLookupError):
            node.signal_all(number)
