"""Registers scenarios, and runs one: its faults, then the checker."""

from __future__ import annotations

import importlib
import pkgutil
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from txqueue.errors import TxqueueError
from txqueue_torture.checker import Violation, check
from txqueue_torture.environment import ScenarioFailed, Testbed
from txqueue_torture.figures import figures_of
from txqueue_torture.needs import CLUSTER

__all__ = ["Scenario", "ScenarioOutcome", "known_scenarios", "run", "scenario"]

Act = Callable[[Testbed], None]

_scenarios: dict[str, Scenario] = {}


@frozen
class Scenario:
    """A scenario: faults that are injected under load.

    Attributes:
        name: The scenario's name.
        summary: One line about the fault.
        act: The function that runs the scenario.
        needs: The required features, by the names of `txqueue_torture.needs`.
        own_server: Whether the scenario damages a PostgreSQL server, and so starts a separate one.
    """

    name: str
    summary: str
    act: Act
    needs: tuple[str, ...] = ()
    own_server: bool = False

    @property
    def is_on_cluster(self) -> bool:
        """Whether the scenario needs a cluster that fails over by itself: ``--ha`` runs those."""
        return set(CLUSTER) <= set(self.needs)


@frozen
class ScenarioOutcome:
    """The outcome of a scenario's run.

    Attributes:
        name: The scenario's name.
        seconds: How long the scenario took.
        events: How many records its processes have written.
        enqueued: How many enqueues were acknowledged.
        done: How many jobs ended done.
        duplicates: How many runs repeated a job without having been expected; see `duplicates`.
        restart_seconds: The longest time from a kill to the next start of an interrupted job.
        figures: Further numbers that the scenario has measured.
        violations: The broken promises.
        evidence: What proves that each fault happened.
        skipped: Why the scenario did not run; None if it did.
    """

    name: str
    seconds: float
    events: int = 0
    enqueued: int = 0
    done: int = 0
    duplicates: int = 0
    restart_seconds: float | None = None
    figures: dict[str, Any] = field(factory=dict)
    violations: tuple[Violation, ...] = ()
    evidence: tuple[str, ...] = ()
    skipped: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as a dictionary for JSON."""
        return asdict(self)


def scenario(
    name: str, summary: str, *, needs: Iterable[str] = (), own_server: bool = False
) -> Callable[[Act], Act]:
    """Register a function as a scenario.

    Args:
        name: The scenario's name.
        summary: One line about the fault.
        needs: The required features.
        own_server: Whether the scenario starts a PostgreSQL server and makes the testbed use it.
    """

    def register(act: Act) -> Act:
        _scenarios[name] = Scenario(name, summary, act, tuple(needs), own_server)
        return act

    return register


def known_scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name, sorted."""
    from txqueue_torture import scenarios

    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    return dict(sorted(_scenarios.items()))


def run(
    chosen: Scenario, folder: Path, dsn: str | None, schema: str = "txqueue", scale: float = 1
) -> ScenarioOutcome:
    """Run a scenario, and check what its processes have recorded.

    Args:
        chosen: The scenario.
        folder: The folder for its records; it must be empty.
        dsn: A database without other work; None if the scenario starts its own.
        schema: The name of txqueue's schema there.
        scale: As for `Testbed`.
    """
    began = time.monotonic()
    testbed = Testbed(folder, schema, scale)
    try:
        broken = _act(chosen, testbed, dsn)
        seconds = round(time.monotonic() - began, 1)
        try:
            return _outcome(chosen, testbed, seconds, broken)
        except (ScenarioFailed, TxqueueError):
            # The error of the scenario may have stopped its database.
            if not broken:
                raise
            return ScenarioOutcome(chosen.name, seconds, violations=tuple(broken))
    finally:
        testbed.close()


def _act(chosen: Scenario, testbed: Testbed, dsn: str | None) -> list[Violation]:
    try:
        if dsn is not None and not chosen.own_server:
            testbed.use(dsn)
        chosen.act(testbed)
        testbed.drain()
    except (ScenarioFailed, TxqueueError, OSError) as error:
        (testbed.folder / "error").write_text(traceback.format_exc())
        return [Violation("run", f"{type(error).__name__}: {error}")]
    return []


def _outcome(
    chosen: Scenario, testbed: Testbed, seconds: float, broken: list[Violation]
) -> ScenarioOutcome:
    history = testbed.history()
    failures = [Violation("expected", text) for text in testbed.failures]
    return ScenarioOutcome(
        name=chosen.name,
        seconds=seconds,
        **figures_of(history),
        events=testbed.figures.pop("lines"),
        figures=testbed.figures,
        violations=tuple(broken + failures + check(history)),
        evidence=tuple(f"{fault.kind}: {fault.evidence}" for fault in history.faults),
    )
