"""Plays mutations, each in a process of its own, all on one server.

``python -m tests.faults.player FOLDER NAME...`` writes the outcomes into the folder. With
``--scenes SCENES --count COUNT`` it plays one at a time until the folder SCENES has the outcomes of
so many scenarios, which are played beside it.

The processes are forks of one that has imported the libraries, which takes as long as many a play,
and none of txqueue: each imports that from its mutated copy.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from multiprocessing.context import ForkServerContext
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from attrs import frozen

from tests.faults.mutations import CONTROLS, MUTATIONS, UNMUTATED, mutated
from tests.without_tls import FOLDER as WITHOUT_TLS

__all__ = ["OTHERS", "PLAYS"]

LIMIT: Final = 300.0
# Faults come when they come: a bug that one play has not met is looked for again.
PLAYS: Final = 5
# As many as scenarios and mutations together before the scenarios have ended.
MOST_AT_ONCE: Final = 3
ASK_EVERY: Final = 0.5
OTHERS: Final = re.compile("TXQUEUE_(?!TEST_)|COVERAGE_")
"""Variables that a run of its own does without; those of tests name programs."""
SAID: Final = "said.json"
LIBRARIES: Final = (
    *("attrs", "cattrs", "click", "cronsim", "psycopg2.extensions", "txpostgres"),
    *("asyncio", "concurrent.futures", "ctypes", "email.message", "statistics", "urllib.request"),
    *("twisted.application.service", "twisted.internet.endpoints", "twisted.internet.task"),
    *("twisted.logger", "twisted.plugin", "twisted.protocols.amp"),
)
"""What the scenarios import besides txqueue; none of it installs a reactor."""

_numbers = count(1)


@frozen
class Play:
    """What the process of one play is given.

    Attributes:
        copy: The folder with the mutated copy, which is the first place for imports.
        scenarios: The names of the scenarios.
        records: The folder for their records, and for what was found.
        dsn: The superuser's DSN of the server that all plays share.
        number: A number that no other play has.
        scale: How much of each scenario is played.
    """

    copy: Path
    scenarios: Sequence[str]
    records: Path
    dsn: str
    number: int
    scale: float


def perform(play: Play) -> None:
    """Play scenarios in this process, which has not imported txqueue yet."""
    Thread(target=_end_with_parent, daemon=True).start()
    log = os.open(play.records / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    for name in filter(OTHERS.match, list(os.environ)):
        del os.environ[name]
    os.environ["PYTHONPATH"] = f"{WITHOUT_TLS}:{play.copy}"
    sys.path.insert(0, str(play.copy))
    os.chdir(play.copy)
    _carry_out(play)


def _end_with_parent() -> None:
    """End this process with the one that waits for it; what it has started ends with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _carry_out(play: Play) -> None:
    from txqueue_torture.campaign import EmbeddedPlaces, carry_out
    from txqueue_torture.scenario import known_scenarios

    scenarios = [known_scenarios()[name] for name in play.scenarios]
    places = EmbeddedPlaces(play.dsn, f"play{play.number}")
    outcomes = carry_out(scenarios, places, play.records, scale=play.scale)
    document = {
        "scenarios": [outcome.as_dict() for outcome in outcomes],
        "violations": sum(len(outcome.violations) for outcome in outcomes),
    }
    (play.records / SAID).write_text(json.dumps(document, default=str))


@frozen
class Stage:
    """Where mutations are played.

    Attributes:
        dsn: The superuser's DSN of the server that all plays share.
        processes: Forks the processes of plays.
    """

    dsn: str
    processes: ForkServerContext

    def play(self, name: str) -> dict[str, Any]:
        """Play a mutation's scenario with the changed copy, again if the bug was not met.

        Returns:
            The outcomes of the last play, or the error; how often it was played, and how long all
            of that took.
        """
        began, plays = time.monotonic(), 0
        outcome: dict[str, Any] = {}
        while plays < (1 if name == UNMUTATED else PLAYS):
            plays += 1
            outcome = self._play_once(name)
            if name != UNMUTATED and (MUTATIONS[name].is_caught(outcome) or _is_skipped(outcome)):
                break
        return {**outcome, "plays": plays, "seconds": round(time.monotonic() - began, 1)}

    def _play_once(self, name: str) -> dict[str, Any]:
        chosen, scale = CONTROLS, 1.0
        if name != UNMUTATED:
            chosen, scale = (MUTATIONS[name].scenario,), MUTATIONS[name].scale
        with tempfile.TemporaryDirectory(prefix="txqueue-mutant-") as home:
            records = Path(home) / "records"
            records.mkdir()
            copy = mutated(name, Path(home) / "copy")
            self._run(Play(copy, chosen, records, self.dsn, next(_numbers), scale))
            try:
                return dict(json.loads((records / SAID).read_text()))
            except OSError:
                return {"error": (records / "log").read_text("utf-8", "replace")[-2000:]}

    def _run(self, play: Play) -> None:
        process = self.processes.Process(target=perform, args=(play,))
        process.start()
        process.join(LIMIT)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"it was not played within {LIMIT:g} s")


def _is_skipped(outcome: dict[str, Any]) -> bool:
    """Whether this machine lacks what the scenario needs."""
    return any(scenario["skipped"] for scenario in outcome.get("scenarios", ()))


def main(folder: Path, names: list[str], others_ended: Callable[[], bool]) -> None:
    """Play mutations one at a time, and more once the scenarios beside them have ended.

    Args:
        folder: The folder for the outcomes.
        names: The mutations.
        others_ended: Whether the scenarios have ended.
    """
    # Not at the top: the processes of plays import this module.
    from txqueue.embedded import EmbeddedServer
    from txqueue_torture.campaign import SETTINGS, EmbeddedPlaces

    todo = SimpleQueue[str]()
    for name in names:
        todo.put(name)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(list(LIBRARIES))

    with EmbeddedServer(settings=SETTINGS) as dsn:
        EmbeddedPlaces(dsn).prepare()
        stage = Stage(dsn, processes)

        def play(is_free: Callable[[], bool]) -> None:
            while not todo.empty() and not is_free():
                time.sleep(ASK_EVERY)
            with suppress(Empty):
                while True:
                    _play(stage, todo.get_nowait(), folder)

        with ThreadPoolExecutor(MOST_AT_ONCE) as slots:
            for is_free in [lambda: True, *[others_ended] * (MOST_AT_ONCE - 1)]:
                slots.submit(play, is_free)


def _play(stage: Stage, name: str, folder: Path) -> None:
    try:
        outcome = stage.play(name)
    except Exception as error:
        outcome = {"error": f"{type(error).__name__}: {error}"}
    made = folder / f"{name}.new"
    made.write_text(json.dumps(outcome))
    made.rename(folder / f"{name}.json")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--scenes", type=Path, default=Path())
    parser.add_argument("--count", type=int, default=0)
    return parser.parse_args()


def _played_in(scenes: Path) -> int:
    """Return how many scenarios have an outcome."""
    return len(list(scenes.glob("*/outcome.json")))


if __name__ == "__main__":
    called = _arguments()
    main(called.folder, called.names, lambda: _played_in(called.scenes) >= called.count)
