"""Runs several scenarios, some at a time, each in a separate database or schema."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from attrs import frozen

from txqueue.errors import Refused
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate
from txqueue_bench.environment import drop_roles, drop_schema, missing_roles
from txqueue_torture.checker import Violation
from txqueue_torture.needs import UNIX_SOCKET, lacking
from txqueue_torture.processes import Leash
from txqueue_torture.scenario import Scenario, ScenarioOutcome, run
from txqueue_torture.sockets import socket_of

__all__ = ["EmbeddedPlaces", "OwnSchemas", "Place", "Places", "carry_out"]

SCHEMA = "txqueue_torture"
TEMPLATE = "torture_template"
OUTCOME = "outcome.json"
# No fault stops the machine, so that commits need not wait for the disk.
SETTINGS = {"fsync": "off", "max_connections": "250", "shared_buffers": "128MB"}

_LOCK = "select pg_try_advisory_lock(hashtextextended(%s, 839))"


@frozen
class Place:
    """Where a scenario runs: a database, and a schema that is empty or does not exist yet."""

    dsn: str
    schema: str


class Places(Protocol):
    """Provides each scenario with a database and a schema."""

    hurts_servers: bool
    """Whether scenarios that damage their own server may run."""

    def place(self, name: str, slot: int) -> AbstractContextManager[Place]:
        """Make a database or a schema, and drop it at the end of the block.

        Args:
            name: The scenario's name.
            slot: A small number that no other running scenario has.
        """


class EmbeddedPlaces:
    """A database for each scenario on one embedded server, a copy of one with the schema.

    Args:
        dsn: The superuser's DSN of the server.
        prefix: What the names of the databases begin with. Processes that share a server have
            different ones.
    """

    hurts_servers = True

    def __init__(self, dsn: str, prefix: str = "torture") -> None:
        self._dsn = dsn
        self._prefix = prefix
        self._making = threading.Lock()

    def prepare(self) -> None:
        """Make the database with the schema; processes that share a server find it there."""
        with self._making:
            if not self._has_template():
                migrate(self._create(TEMPLATE, "template0"))

    @contextmanager
    def place(self, name: str, slot: int) -> Iterator[Place]:  # noqa: ARG002 - names are enough
        """Make a database, and drop it at the end of the block."""
        self.prepare()
        database = f"{self._prefix}_{name}"
        try:
            yield Place(self._create(database, TEMPLATE), "txqueue")
        finally:
            with Session(self._dsn) as session:
                session.rows(f"drop database if exists {database} with (force)")

    def _has_template(self) -> bool:
        with Session(self._dsn) as session:
            found = "select exists (select from pg_database where datname = %s)"
            return bool(session.value(found, (TEMPLATE,)))

    def _create(self, database: str, template: str) -> str:
        """Make a database, and return its DSN."""
        with Session(self._dsn) as session:
            session.rows(f"create database {database} template {template}")
        return urlsplit(self._dsn)._replace(path=f"/{database}").geturl()


class OwnSchemas:
    """A schema for each scenario, in an existing database.

    Args:
        dsn: The database, in which the role may create schemas.
    """

    hurts_servers = False

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @contextmanager
    def place(self, name: str, slot: int) -> Iterator[Place]:  # noqa: ARG002 - a slot is reused
        """Provide the name of a schema, and drop that schema at the end of the block.

        Raises:
            Refused: When another torture runs in the database.
        """
        schema = f"{SCHEMA}_{slot}" if slot else SCHEMA
        with self._session(schema) as session:
            if not session.value(_LOCK, (schema,)):
                raise Refused("another torture runs in this database", "wait until it is over")
            new_roles = missing_roles(session)
            drop_schema(session)
            try:
                yield Place(self._dsn, schema)
            finally:
                # A fault may have closed the connection that holds the lock.
                with self._session(schema) as fresh:
                    drop_schema(fresh)
                    drop_roles(fresh, new_roles)

    def _session(self, schema: str) -> Session:
        return Session(self._dsn, schema, "torture")


def carry_out(
    scenarios: Sequence[Scenario],
    places: Places,
    folder: Path,
    *,
    at_once: int = 1,
    scale: float = 1,
    report: Callable[[ScenarioOutcome], None] = lambda _: None,
) -> list[ScenarioOutcome]:
    """Run scenarios; the records of each stay in a folder of its own.

    Args:
        scenarios: The scenarios to run.
        places: Provides each scenario with a database and a schema.
        folder: The folder for the records.
        at_once: How many scenarios run at a time.
        scale: As for `Testbed`.
        report: Called with each outcome.

    Returns:
        The outcomes in the order of the scenarios.
    """
    todo, done = queue.SimpleQueue[Scenario](), queue.SimpleQueue[ScenarioOutcome]()
    for scenario in scenarios:
        todo.put(scenario)

    def work(slot: int) -> None:
        with suppress(queue.Empty):
            while True:
                done.put(_play_one(todo.get_nowait(), places, folder, slot, scale))

    outcomes: dict[str, ScenarioOutcome] = {}
    with ExitStack() as stack:
        stack.callback(Leash.close_all)
        for slot in range(min(at_once, len(scenarios))):
            # Daemon threads, so that Ctrl-C does not wait for a scenario's end.
            threading.Thread(target=work, args=(slot,), daemon=True).start()
        while len(outcomes) < len(scenarios):
            outcome = done.get()
            outcomes[outcome.name] = outcome
            report(outcome)
    return [outcomes[scenario.name] for scenario in scenarios]


def _play_one(
    chosen: Scenario, places: Places, folder: Path, slot: int, scale: float
) -> ScenarioOutcome:
    own_folder = folder / chosen.name
    own_folder.mkdir(parents=True, exist_ok=True)
    outcome = _outcome(chosen, places, own_folder, slot, scale)
    new_file = own_folder / "outcome.new"
    new_file.write_text(json.dumps(outcome.as_dict(), default=str))
    new_file.rename(own_folder / OUTCOME)
    return outcome


def _outcome(
    chosen: Scenario, places: Places, folder: Path, slot: int, scale: float
) -> ScenarioOutcome:
    try:
        return _played(chosen, places, folder, slot, scale)
    except Exception as error:
        # An error in one scenario must not stop the others.
        broken = Violation("run", f"{type(error).__name__}: {error}")
        return ScenarioOutcome(chosen.name, 0.0, violations=(broken,))


def _played(
    chosen: Scenario, places: Places, folder: Path, slot: int, scale: float
) -> ScenarioOutcome:
    if chosen.own_server and not places.hurts_servers:
        return ScenarioOutcome(chosen.name, 0.0, skipped="hurts its server: only with --embedded")
    if (missing := lacking(chosen.needs)) is not None:
        return ScenarioOutcome(chosen.name, 0.0, skipped=missing)
    if chosen.own_server:
        return run(chosen, folder, None, scale=scale)
    with places.place(chosen.name, slot) as place:
        if UNIX_SOCKET in chosen.needs and socket_of(place.dsn) is None:
            reason = "needs a database that is reached by a unix socket"
            return ScenarioOutcome(chosen.name, 0.0, skipped=reason)
        return run(chosen, folder, place.dsn, place.schema, scale)
