"""What a scenario works with: a database, nodes and clients on it, and faults done to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, field

from txqueue.torture.database import Database
from txqueue.torture.history import SUFFIX, History, lines_of, read_history
from txqueue.torture.node import TortureClient, TortureNode, free_port, until
from txqueue.torture.processes import Leash
from txqueue.torture.recorder import DSN_VARIABLE, FOLDER_VARIABLE, NODE_VARIABLE, Recorder
from txqueue.torture.strays import Strays

__all__ = ["FaultInProgress", "Ground", "ScenarioFailed"]

T = TypeVar("T")

APP = "txqueue.torture.work"
LEASE = 3.0
DRAINED_WITHIN = 60.0
ASK_EVERY, READ_EVERY = 0.1, 0.3
# Two heartbeats are half a lease; the node's looks, its report and ours come on top.
STRAY_LEASES, STRAY_MARGIN = 0.5, 4.0


class ScenarioFailed(Exception):
    """A scenario could not be carried out."""


@define
class FaultInProgress:
    """A fault while it is done.

    Attributes:
        evidence: What shows that it really happened; the scenario says it.
        pids: The processes that it hurts; the scenario may name them more exactly.
    """

    evidence: str = ""
    pids: set[int] = field(factory=set)


class Ground:
    """Where one scenario takes place.

    Args:
        folder: Where its records and its nodes' files are.
        schema: The name of txqueue's schema.
        scale: 1 in the fast form, more in the long one.
        lease: seconds of silence after which a node is presumed dead.

    Attributes:
        figures: What the scenario has found out, by name.
        failures: Its own demands that did not hold.
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
        self._recorder: Recorder | None = None
        self._is_drained = False
        self._strays: Strays | None = None

    def use(self, dsn: str) -> None:
        """Work in a database; whoever brings a server of its own says so before all else.

        Args:
            dsn: How to reach it without anything in between.
        """
        self._database = Database(dsn, self.schema)
        self._database.prepare()
        self._recorder = Recorder(self.folder, "ground", dsn)
        self._strays = Strays(self._database.session)
        self._strays.start()

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Keep something that is needed until all is read: a server, a proxy."""
        return self._undo.enter_context(context)

    @property
    def database(self) -> Database:
        """The database, past all that stands between it and the nodes."""
        if self._database is None:
            raise ScenarioFailed("this scenario has not said which database to use")
        return self._database

    @property
    def dsn(self) -> str:
        """How to reach the database without anything in between."""
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
        """Start a node; whoever needs it waits with ``wait_up()``.

        Args:
            name: Its name; one of a node that has ended starts that node anew.
            workers: How many worker processes.
            capacity: Weight that each of them may run at a time.
            lease: Seconds; the ground's unless given.
            listen: Whether it listens for peers on this host, or the endpoint where.
            dsn: How it reaches the database.
            app: More modules of work items.
            env: More of its environment.
            options: More of its command line.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        words = ["--name", name, "--workers", str(workers), "--capacity", str(capacity)]
        words += [word for module in (APP, *app) for word in ("--app", module)]
        if listen:
            place = listen if isinstance(listen, str) else f"tcp:{free_port()}:interface=127.0.0.1"
            words += ["--listen", place]
        told = {
            "TXQUEUE_LEASE": f"{self.lease if lease is None else lease:g}",
            "TXQUEUE_STATE_DIR": str(folder),
            NODE_VARIABLE: name,
            **(env or {}),
        }
        environment = self._environment(dsn, told)
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
    ) -> TortureClient:
        """Start a client, which enqueues until it is stopped.

        Args:
            rate: Enqueues a second.
            kinds: What it enqueues, in turn; a number after a colon goes to the kind: ``slow:2``.
            count: How many in all.
            dsn: How it reaches the database.
            node: The node that it joins; none unless given.
            app: Modules that register more kinds.
            env: More of its environment.
        """
        plan = {
            "name": f"c{len(self.clients) + 1}",
            "kinds": list(kinds),
            "rate": rate,
            "count": count,
            "node": node.endpoint if isinstance(node, TortureNode) else node or "",
            "app": list(app),
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
        """Record a fault that is done inside; what shows that it happened is set on the value.

        Args:
            kind: Its name; with ``kill`` in it, the processes of ``pids`` die at it.
            nodes: Whom it hurts; None for all.
            frozen: Whether it stops processes that go on later.
            snapshot: Whether to note what the nodes hold; it counts only if they stand still.
            still: Whether the nodes' processes are stopped from the snapshot to the end, so that
                what they hold is known exactly.
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
        """Keep a figure, which is printed."""
        self.figures[name] = value

    def expect(self, condition: object, text: str) -> None:
        """Hold the run to something; the text says what must be so."""
        if not condition:
            self.failures.append(text)

    def wait(
        self, predicate: Any, text: str, within: float = 30.0, every: float = ASK_EVERY
    ) -> None:
        """Wait until something is so.

        Raises:
            ScenarioFailed: When it is not so in time; the text says what.
        """
        if not until(predicate, within, every):
            raise ScenarioFailed(f"not so within {within:g} s: {text}")

    def rest(self, seconds: float) -> None:
        """Let load and faults go on for a while."""
        time.sleep(seconds)

    def flow(self, runs: int = 20, within: float = 60.0) -> None:
        """Wait until the load flows: until so many more runs have begun.

        Raises:
            ScenarioFailed: When they do not begin in time.
        """
        before = self._begun()
        # To read all records takes a while, which the load should have.
        most = within * max(1.0, self.scale)
        self.wait(lambda: self._begun() >= before + runs, f"{runs} runs begin", most, READ_EVERY)

    def _begun(self) -> int:
        return sum(
            path.read_text("utf-8", "replace").count('"what":"start"')
            for path in self.folder.glob(f"*{SUFFIX}")
        )

    def drain(self, within: float = DRAINED_WITHIN) -> None:
        """Stop the clients, wait until nothing is left to do, and stop the nodes."""
        if self._is_drained:
            return
        self._is_drained = True
        for client in self.clients:
            client.stop()
        healed = time.monotonic()
        until(lambda: not self.database.live_jobs(), within, ASK_EVERY)
        left = self.database.live_jobs()
        self._write("drain", healed=healed, ended=time.monotonic(), left=left)
        for node in self.nodes:
            node.ensure_unharmed()
        for node in self.nodes:
            node.stop()
        self._expect_no_strays()

    def _expect_no_strays(self) -> None:
        """Hold the run to I11: no job stays assigned to a live node that does not hold it."""
        if self._strays is not None:
            self._strays.stop()
            self.figure("longest_stray", round(self._strays.longest, 1))
            longest = STRAY_LEASES * self.lease + STRAY_MARGIN
            self.expect(
                self._strays.longest <= longest,
                f"I11: for {self._strays.longest:.1f} s {self._strays.what}",
            )

    def history(self) -> History:
        """Return what was recorded so far."""
        database = self.database
        lines = list(lines_of(self.folder))
        self.figures["lines"] = len(lines)
        return read_history(lines, database.final_jobs(), database.effects(), self.lease)

    def close(self) -> None:
        """End all processes and close all connections."""
        self._leash.close()
        if self._strays is not None:
            self._strays.stop()
        if self._recorder is not None:
            self._recorder.close()
        if self._database is not None:
            self._database.close()
        self._undo.close()

    def _environment(self, dsn: str | None, more: Mapping[str, str]) -> dict[str, str]:
        """Return ours, without the user's settings of nodes, and with the DSN: argv is public."""
        ours = {name: text for name, text in os.environ.items() if not name.startswith("TXQUEUE_")}
        return ours | {
            "TXQUEUE_DSN": self.dsn if dsn is None else dsn,
            "TXQUEUE_SCHEMA": self.schema,
            FOLDER_VARIABLE: str(self.folder),
            DSN_VARIABLE: self.dsn,
            **more,
        }

    def _write(self, what: str, **told: Any) -> None:
        assert self._recorder is not None
        self._recorder.write(what, **told)


def _signal_all(nodes: Sequence[TortureNode], number: signal.Signals) -> None:
    for node in nodes:
        # Whoever was killed meanwhile need not go on.
        with suppress(ProcessLookupError):
            node.signal_all(number)
