"""Scenarios are played two at a time beside the mutations; each test waits for its own.

One process plays the scenarios and another one the mutations, of which it plays three at a time as
soon as the scenarios have ended. Both start before the first test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from tests.faults.mutations import ROOT
from tests.faults.player import OTHERS, PLAYS
from tests.without_tls import FOLDER as WITHOUT_TLS

PATIENCE: Final = 540.0
"""How long one may take at most with all that are played before it."""
AT_ONCE: Final = 2
REQUIRE: Final = "TXQUEUE_TEST_REQUIRE"

_outcomes = pytest.StashKey[list[dict[str, Any]]]()
_mutated = pytest.StashKey[list[dict[str, Any]]]()


@define
class Players:
    """One process that runs the scenarios and mutations of this test session.

    Attributes:
        folder: The folder for the outcome of each.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    seen: list[dict[str, Any]] = field(factory=list)

    @classmethod
    def started(cls, folder: Path, command: Sequence[str]) -> Players:
        """Start it apart from our terminal; without coverage, which would slow what is timed."""
        kept = {k: v for k, v in os.environ.items() if not OTHERS.match(k)}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**kept, "PYTHONPATH": f"{WITHOUT_TLS}:{ROOT}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return cls(folder, process)

    def outcome(self, name: str) -> dict[str, Any]:
        """Wait for the outcome of one."""
        path = self.folder / name
        deadline = time.monotonic() + PATIENCE
        while not path.exists():
            if self.process.poll() is not None and not path.exists():
                pytest.fail(f"the players ended:\n{(self.folder / 'log').read_text()[-5000:]}")
            assert time.monotonic() < deadline, f"{name} is not there after {PATIENCE:g} s"
            time.sleep(0.05)
        outcome: dict[str, Any] = {"name": path.stem, **json.loads(path.read_text())}
        self.seen.append(outcome)
        return outcome

    def stop(self) -> None:
        """End it with all that it has started."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if not any(outcome.get("violations") for outcome in self.seen):
            shutil.rmtree(self.folder, ignore_errors=True)


def wanted(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    """The names that the tests of this session ask for."""
    items = [item for item in request.session.items if fixture in getattr(item, "fixturenames", ())]
    return [item.callspec.params["name"] for item in items if hasattr(item, "callspec")]


@pytest.fixture(scope="session")
def scenes(request: pytest.FixtureRequest) -> Iterator[Players]:
    """Plays scenarios."""
    # Not one of pytest's folders: the servers run under another account, which any other session of
    # pytest that starts meanwhile shuts out of them.
    folder = Path(tempfile.mkdtemp(prefix="txqueue-scenarios-"))
    words = ["torture", *wanted(request, "scenes"), "--embedded", "--jobs", str(AT_ONCE)]
    main = "from txqueue.cli import main; main()"
    players = Players.started(folder, ["-c", main, *words, "--keep", str(folder)])
    request.config.stash[_outcomes] = players.seen
    yield players
    players.stop()


@pytest.fixture(scope="session")
def mutants(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Players]:
    """Plays mutations, more of them at a time after the scenarios."""
    folder = tmp_path_factory.mktemp("mutations")
    words = [str(folder), *wanted(request, "mutants")]
    if names := wanted(request, "scenes"):
        scenes: Players = request.getfixturevalue("scenes")
        words += ["--scenes", str(scenes.folder), "--count", str(len(set(names)))]
    players = Players.started(folder, ["-m", "tests.faults.player", *words])
    request.config.stash[_mutated] = players.seen
    yield players
    players.stop()


@pytest.fixture(scope="session", autouse=True)
def all_play(request: pytest.FixtureRequest) -> None:
    """Start the players of all that the tests of this session ask for."""
    for fixture in ("scenes", "mutants"):
        if wanted(request, fixture):
            request.getfixturevalue(fixture)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the figures of the scenarios, and how long and how often mutations were played."""
    outcomes = config.stash.get(_outcomes, [])
    if outcomes:
        terminalreporter.section("scenarios")
    for outcome in sorted(outcomes, key=lambda each: str(each["name"])):
        terminalreporter.write_line(_line(outcome))
    mutated = config.stash.get(_mutated, [])
    if mutated:
        terminalreporter.section("mutations")
    for outcome in mutated:
        took, plays = outcome.get("seconds", 0.0), outcome.get("plays", 0)
        terminalreporter.write_line(f"{took:6.1f} s  {plays} of {PLAYS} plays  {outcome['name']}")


def _line(outcome: dict[str, Any]) -> str:
    if outcome["skipped"]:
        return f"{outcome['name']:<28} skipped: {outcome['skipped']}"
    figures = {
        "events": outcome["events"],
        "enqueued": outcome["enqueued"],
        "done": outcome["done"],
        "duplicates": outcome["duplicates"],
        "restart": outcome["restart_seconds"],
        **outcome["figures"],
    }
    said = ", ".join(f"{name} {value}" for name, value in figures.items() if value is not None)
    return f"{outcome['name']:<28} {outcome['seconds']:5.1f} s  {said}"
