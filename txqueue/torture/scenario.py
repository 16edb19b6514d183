"""Scenarios by name, and one run of one: its faults, then what the checker says of it."""

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
from txqueue.torture.checker import Violation, check
from txqueue.torture.environment import Ground, ScenarioFailed
from txqueue.torture.figures import figures_of

__all__ = ["Outcome", "Scenario", "known_scenarios", "run", "scenario"]

Act = Callable[[Ground], None]

_scenarios: dict[str, Scenario] = {}


@frozen
class Scenario:
    """One thing that may go wrong.

    Attributes:
        name: Its name.
        summary: One line that says what happens.
        act: Does it.
        needs: What the machine must have, by the names of `txqueue.torture.needs`.
        own_server: Whether it brings a server of its own, which it hurts.
    """

    name: str
    summary: str
    act: Act
    needs: tuple[str, ...] = ()
    own_server: bool = False


@frozen
class Outcome:
    """What came of a run.

    Attributes:
        name: The scenario's.
        seconds: How long it took.
        events: How many lines were recorded.
        enqueued: How many enqueues were acknowledged.
        done: How many jobs ended done.
        duplicates: How many runs were not the first of their job, and no retry.
        restart_seconds: The longest from a kill to the next start of a job that it cut short.
        figures: What else the scenario has found out.
        violations: What was not as promised.
        evidence: What shows of each fault that it happened.
        skipped: Why it did not run at all; None if it did.
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
        """Return it as it is printed in JSON."""
        return asdict(self)


def scenario(
    name: str, summary: str, *, needs: Iterable[str] = (), own_server: bool = False
) -> Callable[[Act], Act]:
    """Register a function as a scenario.

    Args:
        name: Its name.
        summary: One line that says what happens.
        needs: What the machine must have.
        own_server: Whether it brings a server of its own and tells the ground to use it.
    """

    def register(act: Act) -> Act:
        _scenarios[name] = Scenario(name, summary, act, tuple(needs), own_server)
        return act

    return register


def known_scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name, sorted."""
    from txqueue.torture import scenarios

    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    return dict(sorted(_scenarios.items()))


def run(
    chosen: Scenario, folder: Path, dsn: str | None, schema: str = "txqueue", scale: float = 1
) -> Outcome:
    """Carry a scenario out, and check what was recorded.

    Args:
        chosen: The scenario.
        folder: Where its records go; it must be empty.
        dsn: The database, empty of all other work; None if it brings its own.
        schema: The name of txqueue's schema there.
        scale: 1 for the fast form, more for the long one.
    """
    began = time.monotonic()
    ground = Ground(folder, schema, scale)
    try:
        broken = _act(chosen, ground, dsn)
        seconds = round(time.monotonic() - began, 1)
        try:
            return _outcome(chosen, ground, seconds, broken)
        except (ScenarioFailed, TxqueueError):
            # Whatever broke the scenario has taken its database along.
            if not broken:
                raise
            return Outcome(chosen.name, seconds, violations=tuple(broken))
    finally:
        ground.close()


def _act(chosen: Scenario, ground: Ground, dsn: str | None) -> list[Violation]:
    try:
        if dsn is not None and not chosen.own_server:
            ground.use(dsn)
        chosen.act(ground)
        ground.drain()
    except (ScenarioFailed, TxqueueError, OSError) as error:
        (ground.folder / "error").write_text(traceback.format_exc())
        return [Violation("run", f"{type(error).__name__}: {error}")]
    return []


def _outcome(chosen: Scenario, ground: Ground, seconds: float, broken: list[Violation]) -> Outcome:
    history = ground.history()
    failures = [Violation("expected", text) for text in ground.failures]
    return Outcome(
        name=chosen.name,
        seconds=seconds,
        **figures_of(history),
        events=ground.figures.pop("lines"),
        figures=ground.figures,
        violations=tuple(broken + failures + check(history)),
        evidence=tuple(f"{fault.kind}: {fault.evidence}" for fault in history.faults),
    )
