"""Deliberate bugs of the product: what each changes, and the promise that it breaks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, Final

from attrs import frozen

# Of these a part is enough to meet a bug: fewer jobs or fewer faults. A rescue in part needs more
# than 5,000 groups.
SCALES: Final = {
    "calm": 0.5,
    "groups_and_death": 0.6,
    "hostile_enqueues": 0.4,
    "poison_among_many": 0.5,
    "steps_killed": 0.4,
}
ROOT: Final = Path(__file__).resolve().parents[2]
UNMUTATED: Final = "unmutated"
PARTS: Final = ("txqueue", "schema", "twisted")


@frozen
class Mutation:
    """One deliberate bug.

    Attributes:
        scenario: What is played with it.
        invariants: The promises of which the checker must name at least one.
        edits: What is changed: a file from the root, or a function after its colon, the text there,
            and what it becomes. More than
            one where one layer alone makes up for the lack of another.
    """

    scenario: str
    invariants: frozenset[str]
    edits: tuple[tuple[str, str, str], ...]

    @property
    def scale(self) -> float:
        """How much of the scenario is played."""
        return SCALES.get(self.scenario, 1.0)

    def is_caught(self, outcome: dict[str, Any]) -> bool:
        """Say whether the checker has named one of the promises."""
        played = outcome.get("scenarios", ())
        return any(
            violation["invariant"] in self.invariants
            for scenario in played
            for violation in scenario["violations"]
        )


def _of(scenario: str, invariants: str, *edit: str) -> Mutation:
    """Make a mutation of one edit, or of several in a row: path, before, after, path, ..."""
    edits = tuple(zip(edit[::3], edit[1::3], edit[2::3], strict=True))
    return Mutation(scenario, frozenset(invariants.split()), edits)


MUTATIONS: Final = {
    "a completion ignores its token": _of(
        "taken_over",
        "I5",
        "schema/functions/complete.sql:complete_in",
        " and assignment = its_assignment and incarnation = its_incarnation",
        "",
    ),
    "an assignment's number is of a sequence alone, after a restore": _of(
        "restored_dump",
        "expected",
        "schema/functions/claim.sql:next_assignment",
        "::bigint & 4194303)",
        "::bigint & 0)",
    ),
    "a completion ignores its token, on a highly available cluster": _of(
        "ha_taken_over",
        "I5",
        "schema/functions/complete.sql:complete_in",
        " and assignment = its_assignment and incarnation = its_incarnation",
        "",
    ),
    "an assignment's number is of a sequence alone, after a failover": _of(
        "lagging_standby",
        "expected",
        "schema/functions/claim.sql:next_assignment",
        "::bigint & 4194303)",
        "::bigint & 0)",
    ),
    "a node goes on in a restored database": _of(
        "restored_dump",
        "expected",
        "txqueue/node/leasing/heartbeats.py",
        "if reply.beats <= self._beats:",
        "if False:",
    ),
    "a node goes on with what a lagging standby has lost": _of(
        "lagging_standby",
        "expected",
        "txqueue/node/leasing/heartbeats.py",
        "if is_elsewhere and",
        "if False and",
    ),
    "a retry ignores its token": _of(
        "taken_over",
        "I7",
        "schema/functions/settle.sql:end_assigned",
        " and incarnation = its_incarnation\n",
        "\n",
        "schema/functions/settle.sql:end_assigned",
        "((job_id, assignment) in (select said.job_id, said.assignment from",
        "((job_id) in (select said.job_id from",
        "schema/functions/settle.sql:end_assigned",
        " and said.assignment = gone.assignment",
        "",
    ),
    "a transaction commits although its job is another's": _of(
        "taken_over",
        "I9",
        "schema/functions/complete.sql:complete_one",
        "if not is_ended then\n        raise",
        "if false then\n        raise",
    ),
    "rescue takes from the living": _of(
        "calm",
        "I7",
        "schema/functions/nodes.sql:rescue",
        "where state in ('dead', 'stopped') and ended_at",
        "where heartbeat_at",
    ),
    "a node is not asked before its jobs are rescued": _of(
        "node_cut_linked",
        "expected",
        "txqueue/node/leasing/heartbeats.py",
        "if living:",
        "if False:",
    ),
    "a worker starts jobs after its lease": _of(
        "held_past_lease",
        "I6",
        "txqueue/worker/running/performer.py",
        "return time.monotonic() < self._lease_until",
        "return True",
    ),
    "jobs of groups run on after the lease": _of(
        "group_past_lease",
        "I5",
        "txqueue/worker/master_link.py",
        "elif self._end(None):",
        "elif False:",
    ),
    "a group has no limit": _of(
        "calm",
        "I5",
        "schema/functions/groups.sql:admit_groups",
        '(mine."group" is null or mine.is_holder or (mine.number',
        '(true or mine."group" is null or mine.is_holder or (mine.number',
    ),
    "jobs get ready before their time": _of(
        "calm",
        "I3",
        "schema/functions/ready.sql:promote",
        "and not_before <= clock_timestamp() and",
        "and",
    ),
    "what a dead worker held is thrown away": _of(
        "worker_kill",
        "I1",
        "schema/functions/complete.sql:release",
        "perform give_back(this, died and (not all_but or this.deaths < 2"
        " or this.started_at is not null));",
        "null;",
    ),
    "what was rolled back is delivered": _of(
        "calm",
        "I2",
        "txqueue/client/queue.py",
        # Of a transaction; an enqueue alone has the same call before an else.
        "dispatch.rolled_back()\n            raise\n        dispatch",
        "dispatch.committed()\n            raise\n        dispatch",
    ),
    "an expiry is ignored": _of(
        "expiry",
        "I4",
        "txqueue/worker/running/performer.py",
        "is_expired(terms, kind.cls.expires, held.asked_at)",
        "False",
    ),
    "an enqueue is acknowledged and not kept": _of(
        "calm",
        "I1",
        "txqueue/store/driver/connection.py",
        'cursor = await self._executed("commit", ())',
        'await self._executed("rollback and chain", ())\n'
        '        cursor = await self._executed("commit", ())',
    ),
    "a master does not look again for open transactions": _of(
        "overlapping_commits",
        "expected",
        "txqueue/policy/placement/credit.py",
        "if not self._since and not self._has_news:",
        "if True:",
    ),
    "a node does not look for what it does not hold": _of(
        "unheard_claim",
        "I10 expected",
        "txqueue/node/leasing/reconciliation.py",
        "            await self._give_back(identity.incarnation, repeated[:MOST])\n",
        "",
    ),
    "a rescue waits for a completion": _of(
        "completion_uncommitted",
        "run",
        "schema/functions/complete.sql:release",
        " limit at_most for update skip locked)",
        " limit at_most)",
    ),
    "a worker is as quick as it was once": _of(
        "long_after_storm",
        "run expected",
        "txqueue/policy/placement/room.py",
        "        if elapsed < PACE_WINDOW:",
        "        if elapsed < 3600:",
    ),
    "what a dead node held is rescued in part": _of(
        "groups_and_death",
        "run I1 I10",
        "schema/functions/nodes.sql:rescue",
        "exit when rescued >= 5000;",
        "exit;",
    ),
    "a condition is waited for": _of(
        "condition_hangs",
        "expected run",
        "txqueue/store/schedules.py",
        "set local statement_timeout = {CONDITION_PATIENCE * 1000};",
        "set local statement_timeout = 0; set local lock_timeout = 0;",
        "txqueue/node/arrival/scheduler.py",
        "        self._checks.begin(due)\n",
        "        self._checks.begin(due)\n        await self._checks.end()\n",
    ),
    "all that waited in a dead process died with it": _of(
        "poison_among_many",
        "expected",
        "txqueue/node/workers/workload.py",
        "self.reports.give_back(assignment, died=True, ids=blamed)",
        "self.reports.give_back(assignment, died=True)",
    ),
    "moments of all kinds are taken, and not read": _of(
        "hostile_enqueues",
        "expected run I1 I10",
        "schema/functions/enqueue_checks.sql:find_broken_rule",
        "when not_before not between '1900-01-01Z' and '9998-12-31 23:59:59.999999Z' and",
        "when false and",
        "txqueue/store/driver/errors.py",
        '        return EARLIEST if text.endswith("BC") or text == "-infinity" else LATEST\n',
        "        raise\n",
    ),
    "one that cannot reach the database is handed work": _of(
        "node_cut_with_work",
        "expected",
        "txqueue/node/peers/peer.py",
        " if has_room else 0,",
        ",",
        "schema/functions/nodes.sql:is_reachable",
        " and node.vouched_at is null",
        "",
    ),
    "a long outcome is written before all others": _of(
        "slow_link",
        "run",
        "txqueue/node/workers/completions.py",
        "if len(report.outcomes) <= LONG:",
        "if True:",
        "txqueue/node/workers/completions.py",
        "        while entries.completed:\n            await self._complete(",
        "        if entries.settled and len(entries.settled[-1].outcomes) > LONG:\n"
        "            await self._settle(entries.settled)\n"
        "        while entries.completed:\n            await self._complete(",
    ),
    "a worker notices the ends of programs by their signal only": _of(
        "child_processes",
        "run",
        "txqueue/worker/master_link.py",
        "        poll_children(self._reactor, reapAllProcesses)\n",
        "",
    ),
    "a master notices the ends of workers by their signal only": _of(
        "not_ready",
        "run",
        "txqueue/node/master_process.py",
        "    poll_children(reactor, reapAllProcesses)\n",
        "",
    ),
    "a node without workers says that it is ready": _of(
        "not_ready",
        "run",
        "txqueue/policy/health.py",
        "(not facts.workers,",
        "(False,",
        "txqueue/policy/health.py",
        "(not facts.able,",
        "(False,",
    ),
    "threads that hang take no room": _of(
        "hung_threads",
        "run",
        "txqueue/worker/running/endings.py",
        "is_stuck = weight >= self._capacity or",
        "is_stuck = False and",
    ),
    "suspects wait for each other": _of(
        "long_suspects",
        "run",
        "txqueue/node/workers/suspects.py",
        "MOST_PROCESSES = 4",
        "MOST_PROCESSES = 1",
    ),
    "a suspect is given to a worker": _of(
        "long_suspects",
        "run expected",
        "txqueue/node/workers/workload.py",
        "            if assignment.is_alone:",
        "            if False:",
    ),
    "a death is of the jobs that have not ended": _of(
        "poison_descriptors",
        "run",
        "txqueue/system/inflight.py",
        "        return begun\n\n    @property\n    def _just_begun",
        "        return self.ids\n\n    @property\n    def _just_begun",
    ),
    "jobs do not wait for parents": _of(
        "worker_kill",
        "I10",
        "schema/functions/complete.sql:give_back",
        "this.state := 'ready';",
        "this.state := 'waiting'; this.waiting_for := 'group';",
    ),
    "a step transaction commits without its token": _of(
        "steps_taken_over",
        "expected",
        "schema/functions/steps.sql:write_step",
        "if is_held is not true then",
        "if false then",
        # The next run's step has the name.
        "schema/functions/steps.sql:write_step",
        "is null then clock_timestamp() end);",
        "is null then clock_timestamp() end) on conflict do nothing;",
    ),
    "a step is written without its token": _of(
        "steps_taken_over",
        "expected",
        "schema/functions/steps.sql:write_steps",
        "((job_id, assignment) in (select * from unnest(held, tokens))) is true and kind",
        "kind",
        "schema/functions/steps.sql:write_steps",
        "where ((job_id, assignment) in (select * from unnest(held, tokens))) is true\n    loop",
        "loop",
    ),
    "a signal is consumed twice": _of(
        "steps_killed",
        "expected",
        "schema/functions/signals.sql:take_signal",
        "its_signal and taken_at is null",
        "its_signal",
    ),
    "a signal between the look and the wait is lost": _of(
        "steps_killed",
        "run",
        "schema/functions/steps.sql:suspend_job",
        "cardinality(signalled_jobs(array[this.job_id])) > 0",
        "false",
    ),
    "a repeated job keeps its later steps": _of(
        "steps_killed",
        "expected",
        "schema/functions/acts.sql:retry_from",
        "step.number >= first",
        "step.number = first",
    ),
    "the end of a child is not noticed": _of(
        "steps_killed",
        "run",
        "schema/functions/steps.sql:wait_for_steps",
        "if children is not null then",
        "if false then",
    ),
}
"""By what goes wrong."""


# What an unmutated copy must pass; that all the others pass, test_scenarios.py shows.
CONTROLS: Final[tuple[str, ...]] = ("calm", "held_past_lease")


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
    for changed, before, after in () if name == UNMUTATED else MUTATIONS[name].edits:
        file, text = changed.partition(":")[0], edited_text(folder, changed)
        if text.count(before) != 1:
            raise LookupError(f"{changed} has {before!r} not just once")
        whole = (folder / file).read_text()
        (folder / file).write_text(whole.replace(text, text.replace(before, after)))
    return folder


def edited_text(folder: Path, changed: str) -> str:
    """Return the text in which an edit has its place: a file, or one stored function of it."""
    file, _, function = changed.partition(":")
    text = (folder / file).read_text()
    if not function:
        return text
    head = rf"^create or replace function txqueue\.{function}(?:_0)?\("
    if (begin := re.search(head, text, re.MULTILINE)) is None:
        raise LookupError(f"{file} has no function {function}")
    return text[begin.start() : text.index("$$;", begin.start())]
