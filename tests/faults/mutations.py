"""Deliberate bugs of the product: what each changes, and the promise that it breaks.

``python -m tests.faults.mutations FOLDER NAME...`` lets each play its scenario, some at a time, and
leaves what came of it in the folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[2]
UNMUTATED: Final = "unmutated"
AT_ONCE: Final = 3
LIMIT: Final = 300.0
PARTS: Final = ("txqueue", "schema", "twisted")


@frozen
class Mutation:
    """One deliberate bug.

    Attributes:
        scenario: What is played with it.
        invariants: The promises of which the checker must name at least one.
        path: The file that is changed, from the root.
        before: The text there.
        after: What it becomes.
    """

    scenario: str
    invariants: frozenset[str]
    path: str
    before: str
    after: str


def _of(scenario: str, invariants: str, path: str, before: str, after: str) -> Mutation:
    return Mutation(scenario, frozenset(invariants.split()), path, before, after)


MUTATIONS: Final = {
    "a completion ignores its token": _of(
        "taken_over",
        "I5",
        "schema/functions/complete_in.sql",
        " and assignment = its_assignment and incarnation = its_incarnation",
        "",
    ),
    "a retry ignores its token": _of(
        "taken_over",
        "I7",
        "schema/functions/settle.sql",
        " and assignment = said.assignment\n           and incarnation = its_incarnation",
        "",
    ),
    "a transaction commits although its job is another's": _of(
        "taken_over",
        "I9",
        "txqueue/worker/service.py",
        "if not rows[0][0]:",
        "if False:",
    ),
    "rescue takes from the living": _of(
        "calm",
        "I7",
        "schema/functions/rescue.sql",
        "where node.state in ('dead', 'stopped') and node.ended_at",
        "where node.heartbeat_at",
    ),
    "nobody is asked before its jobs are taken": _of(
        "node_cut_linked",
        "expected",
        "txqueue/node/vouching.py",
        "if living:",
        "if False:",
    ),
    "a worker starts jobs after its lease": _of(
        "held_past_lease",
        "I6",
        "txqueue/worker/performer.py",
        "return time.monotonic() < self._lease_until",
        "return True",
    ),
    "jobs of groups run on after the lease": _of(
        "group_past_lease",
        "I5",
        "txqueue/worker/lease.py",
        "elif self._end(None):",
        "elif False:",
    ),
    "a group admits everybody": _of(
        "calm",
        "I5",
        "schema/functions/admit_groups.sql",
        'where mine."group" is null or (mine.place',
        'where true or mine."group" is null or (mine.place',
    ),
    "jobs get ready before their time": _of(
        "calm",
        "I3",
        "schema/functions/promote.sql",
        "and not_before <= clock_timestamp() and",
        "and",
    ),
    "what a dead worker held is thrown away": _of(
        "worker_kill",
        "I1",
        "schema/functions/release.sql",
        "perform give_back(this, died);",
        "null;",
    ),
    "what was rolled back is delivered": _of(
        "calm",
        "I2",
        "txqueue/client/queue.py",
        "trip.rolled_back()",
        "trip.committed()",
    ),
    "an expiry is ignored": _of(
        "expiry",
        "I4",
        "txqueue/worker/performer.py",
        "is_expired(options, kind.cls.expires, batch.asked_at)",
        "False",
    ),
    "an enqueue is acknowledged and not kept": _of(
        "calm",
        "I1",
        "txqueue/store/connection.py",
        'cursor = await self._executed("commit", ())',
        'await self._executed("rollback and chain", ())\n'
        '        cursor = await self._executed("commit", ())',
    ),
    "a node does not look for what it does not hold": _of(
        "unheard_claim",
        "I10 expected",
        "txqueue/node/reconciliation.py",
        "            await self._give_back(incarnation, again[:MOST])\n",
        "",
    ),
    "a rescue waits for a completion": _of(
        "completion_uncommitted",
        "run",
        "schema/functions/release.sql",
        " limit at_most for update skip locked)",
        " limit at_most)",
    ),
    "a worker is as quick as it was once": _of(
        "long_after_storm",
        "run expected",
        "txqueue/node/worker.py",
        "        if passed < PACE_WINDOW:",
        "        if passed < 3600:",
    ),
    "an assignment that arrives twice is performed twice": _of(
        "peers_late",
        "expected I5 I7",
        "txqueue/node/arrivals.py",
        "if arrived >> place & 1:",
        "if False:",
    ),
    "what a dead node held is rescued in part": _of(
        "groups_and_death",
        "run I1 I10",
        "schema/functions/rescue.sql",
        "exit when rescued >= 5000;",
        "exit;",
    ),
    "a condition is waited for": _of(
        "condition_hangs",
        "expected run",
        "txqueue/store/schedules.py",
        "set local statement_timeout = {CONDITION_PATIENCE * 1000};",
        "",
    ),
    "all that waited in a dead process died with it": _of(
        "poison_among_many",
        "expected",
        "txqueue/node/workers.py",
        "self.reports.give_back(assignment, died=True, ids=blamed)",
        "self.reports.give_back(assignment, died=True)",
    ),
    "jobs wait for nobody": _of(
        "worker_kill",
        "I10",
        "schema/functions/give_back.sql",
        "this.state := 'ready';",
        "this.state := 'waiting'; this.waiting_for := 'group';",
    ),
}
"""By what goes wrong."""


# What an unmutated copy must pass; that all the others pass, test_scenarios.py shows.
CONTROLS: Final = ("calm", "worker_kill", "held_past_lease")


def mutated(name: str, folder: Path) -> Path:
    """Copy the package and make the change.

    Args:
        name: The mutation; ``unmutated`` changes nothing.
        folder: Where the copy goes.

    Raises:
        LookupError: When the text is not there, or is there twice.
    """
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, symlinks=True)
    if name != UNMUTATED:
        mutation = MUTATIONS[name]
        path = folder / mutation.path
        text = path.read_text()
        if text.count(mutation.before) != 1:
            raise LookupError(f"{mutation.path} has {mutation.before!r} not just once")
        path.write_text(text.replace(mutation.before, mutation.after))
    return folder


def played(name: str, jobs: int = 1) -> dict[str, Any]:
    """Play a mutation's scenario with the changed copy, schema and all.

    Returns:
        What ``txqueue torture --json`` printed, or the error.
    """
    chosen = CONTROLS if name == UNMUTATED else [MUTATIONS[name].scenario]
    with tempfile.TemporaryDirectory(prefix="txqueue-mutant-") as home:
        copy = mutated(name, Path(home) / "copy")
        words = ["torture", *chosen, "--embedded", "--json", "--jobs", str(jobs)]
        command = [sys.executable, "-c", "from txqueue.cli import main; main()", *words]
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("TXQUEUE_", "COVERAGE_"))}
        result = subprocess.run(
            [*command, "--keep", str(Path(home) / "records")],
            cwd=copy,
            env={**ours, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
    try:
        return dict(json.loads(result.stdout))
    except ValueError:
        return {"error": result.stderr[-2000:]}


def main(folder: Path, names: list[str]) -> None:
    """Play mutations, some at a time."""

    def play(name: str) -> None:
        try:
            outcome = played(name)
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"}
        made = folder / f"{name}.new"
        made.write_text(json.dumps(outcome))
        made.rename(folder / f"{name}.json")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(play, names))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
