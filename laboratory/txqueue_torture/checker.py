"""Decides from the record of a run whether the queue kept its promises, the invariants I1 to I10.

One function checks each invariant and yields a text for each violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from attrs import frozen

from txqueue_torture.figures import duplicates
from txqueue_torture.history import Fault, FinalJob, History, JobRun

__all__ = ["INVARIANTS", "Violation", "check", "woke_up_starting"]

DRAINED_WITHIN = 60.0
# Seconds: a worker checks the expiry just before a start; a later start was not checked.
EXPIRY_MARGIN = 0.5
# Seconds: a process that is stopped just as it starts a job starts that job when it is resumed,
# whatever has changed in the meantime.
WAKING = 0.25
# Seconds by which the record of a resumption may be later than the resumption itself.
NOTING = 0.05
COMPLETING = frozenset({"returned", "committed"})
FINAL = ("done", "failed", "cancelled")
MOST_SHOWN = 20


@frozen
class Violation:
    """A broken promise.

    Attributes:
        invariant: ``I1`` to ``I11``; ``fault``: a fault was not proved to happen; ``expected``: a
            requirement of the scenario was not met; ``run``: the scenario itself failed.
        text: What happened.
    """

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


def check(history: History) -> list[Violation]:
    """Return the violations of all invariants; none if the queue kept its promises."""
    return [
        Violation(name, text)
        for name, invariant in INVARIANTS
        for text in _first(list(invariant(history)))
    ]


def _first(texts: list[str]) -> list[str]:
    """Shorten a list of violations, as one cause may affect thousands of jobs."""
    more = len(texts) - MOST_SHOWN
    return texts if more <= 0 else [*texts[:MOST_SHOWN], f"and {more} more like these"]


def nothing_lost(history: History) -> Iterator[str]:
    """I1: each acknowledged job is done after a run, or is failed or cancelled with a reason."""
    by_job = history.runs_by_job()
    for enqueue in history.enqueues.values():
        if enqueue.outcome == "acknowledged" and enqueue.job_id is not None:
            job = history.jobs.get(enqueue.job_id)
            if job is None:
                yield f"job {enqueue.job_id} ({enqueue.intent}) was acknowledged and is gone"
            elif job.intent != enqueue.intent:
                yield f"job {job.job_id} is {job.intent}, acknowledged as {enqueue.intent}"
    for job in history.jobs.values():
        if job.state == "done" and not _has_ended(job, by_job.get(job.job_id, []), history):
            yield f"job {job.job_id} ({job.intent}) is done, but no run of it came to its end"
        if job.state in ("failed", "cancelled") and not job.error:
            yield f"job {job.job_id} ({job.intent}) is {job.state} and does not say why"


def _has_ended(job: FinalJob, runs: Sequence[JobRun], history: History) -> bool:
    """Whether a run of a job completed: it recorded its end, or its effect is committed."""
    return any(run.how in COMPLETING for run in runs) or bool(
        runs and history.effects.get(job.job_id)
    )


def nothing_unasked(history: History) -> Iterator[str]:
    """I2: no job runs or exists whose enqueue was rolled back, refused or never made."""
    known = {run.intent for run in history.runs}
    known |= {job.intent for job in history.jobs.values() if job.intent is not None}
    for intent in sorted(known):
        enqueue = history.enqueues.get(intent)
        if enqueue is None:
            yield f"{intent} was never attempted and is there"
        elif enqueue.outcome in ("rolled back", "refused"):
            yield f"{intent} was {enqueue.outcome} and is there"
    intents = Counter(job.intent for job in history.jobs.values() if job.intent is not None)
    for intent, jobs in intents.items():
        if jobs > 1:
            yield f"{intent} was enqueued once and is there as {jobs} jobs"


def nothing_early(history: History) -> Iterator[str]:
    """I3: no job starts before its ``not_before``, by the database's clock."""
    for run in history.runs:
        enqueue = history.enqueues.get(run.intent)
        if enqueue is None or enqueue.not_before is None or run.began_at is None:
            continue
        if run.began_at < enqueue.not_before:
            early = enqueue.not_before - run.began_at
            yield f"job {run.job_id} ({run.intent}) started {early:.3f} s before its time"


def nothing_expired(history: History) -> Iterator[str]:
    """I4: no job with ``expires`` starts after its ``not_after``."""
    for run in history.runs:
        enqueue = history.enqueues.get(run.intent)
        if enqueue is None or not enqueue.expires or enqueue.not_after is None:
            continue
        late = (run.began_at or 0.0) - enqueue.not_after
        if late > EXPIRY_MARGIN and not woke_up_starting(run, history):
            yield f"job {run.job_id} ({run.intent}) started {late:.3f} s after its expiry"


def groups_apart(history: History) -> Iterator[str]:
    """I5: no two jobs of a group run at a time, unless a process was stopped past its lease."""
    by_group: dict[str, list[tuple[float, float, JobRun]]] = defaultdict(list)
    last_words = _last_words(history)
    for run in history.runs:
        if run.group is not None:
            over = run.ended if run.ended is not None else _death(run, history, last_words)
            by_group[run.group].append((run.began, over, run))
    for group, spans in by_group.items():
        longest: tuple[float, float, JobRun] | None = None
        for span in sorted(spans, key=lambda span: span[0]):
            overlap = longest[1] - span[0] if longest is not None else 0.0
            if longest is not None and overlap > 0 and not _was_frozen(longest[2], history):
                yield (
                    f"jobs {longest[2].job_id} and {span[2].job_id} of group {group} overlap by"
                    f" {overlap:.3f} s ({longest[2].node}, {span[2].node})"
                )
            longest = span if longest is None or span[1] >= longest[1] else longest


def _last_words(history: History) -> dict[int, float]:
    """Return the time of each process's last record, at which the process was still alive."""
    times: dict[int, float] = {}
    for run in history.runs:
        times[run.pid] = max(times.get(run.pid, 0.0), run.began, run.ended or 0.0)
    return times


def _death(run: JobRun, history: History, last_words: dict[int, float]) -> float:
    """Return the time until which a run without a recorded end certainly went on."""
    kills = [
        fault.began
        for fault in history.faults
        if fault.is_killing and run.pid in fault.pids and fault.began >= run.began
    ]
    return min(kills, default=last_words[run.pid])


def _was_frozen(run: JobRun, history: History) -> bool:
    """Whether the run's process was stopped past its node's lease before the run was over."""
    return any(
        fault.frozen
        and run.pid in fault.pids
        and fault.ended - fault.began >= history.lease
        and fault.ended >= run.began
        and (run.ended is None or run.ended >= fault.began)
        for fault in history.faults
    )


def no_stale_commit(history: History) -> Iterator[str]:
    """I5: no run completes its job or commits once the job has a newer assignment."""
    for job_id, runs in history.runs_by_job().items():
        job = history.jobs.get(job_id)
        if job is not None and job.state == "done" and job.assignment is not None:
            newer = max(run.assignment for run in runs)
            if job.assignment < newer and not _is_after_completion(job, runs):
                yield f"job {job_id} was completed under {job.assignment}, {newer} had it"
            elif not _by_its_own_run(job, runs, history):
                yield f"job {job_id} was completed under {job.assignment} by another run"
        for run in runs:
            if run.how == "committed" and run.ended is not None:
                before = [it for it in runs if it.began < run.ended]
                newest = max(it.assignment for it in before)
                if run.assignment < newest:
                    yield f"job {job_id} committed under {run.assignment}, {newest} had it"


def _by_its_own_run(job: FinalJob, runs: Sequence[JobRun], history: History) -> bool:
    """Whether a done job was completed by the run with the token that the job's row names."""
    ends = {run.assignment: run for run in runs if run.how in COMPLETING}
    if not ends or history.effects.get(job.job_id):
        return True
    own = ends.get(job.assignment or 0)
    if own is None:
        return False
    if own.how == "committed" or own.ended_at is None or job.finished_at is None:
        return True
    # A returning handler records its end before the completion.
    return own.ended_at <= job.finished_at


def _is_after_completion(job: FinalJob, runs: Sequence[JobRun]) -> bool:
    """Whether all runs with newer tokens started after the completion, which violates only I6."""
    newer = [run for run in runs if run.assignment > (job.assignment or 0)]
    return all(_follows(run, job, runs) for run in newer)


def nothing_after_completion(history: History) -> Iterator[str]:
    """I6: no job starts again after its completion was acknowledged."""
    for job_id, runs in history.runs_by_job().items():
        job = history.jobs.get(job_id)
        for run in runs:
            if job and _follows(run, job, runs) and not woke_up_starting(run, history):
                yield f"job {job_id} ({run.intent}) started on {run.node} after it was completed"


def _follows(run: JobRun, job: FinalJob, runs: Sequence[JobRun]) -> bool:
    """Whether a run started after its job's completion, as the row or a recorded commit shows."""
    finished = job.finished_at if job.state == "done" else None
    if finished is not None and run.began_at is not None and run.began_at > finished:
        return True
    ends = [it.ended for it in runs if it.how == "committed" and it.ended is not None]
    return any(run.began > end for end in ends)


def duplicates_have_cause(history: History) -> Iterator[str]:
    """I7: a job runs twice only if a fault hit the process that held it."""
    for before, again in duplicates(history):
        is_hurt = any(_explains(fault, before, again) for fault in history.faults)
        if not is_hurt and not woke_up_starting(before, history):
            yield (
                f"job {again.job_id} ({again.intent}) ran again on {again.node}: its run on"
                f" {before.node} {before.how or 'did not end'}, and no fault had hurt that"
            )


def _explains(fault: Fault, before: JobRun, again: JobRun) -> bool:
    """Whether a fault may have prevented the first run's completion, and so caused the second."""
    if fault.began > again.began or not fault.hurts(before.node):
        return False
    if fault.assigned is not None:
        return (before.job_id, before.assignment) in fault.assigned
    return before.began <= fault.ended


def one_owner(history: History) -> Iterator[str]:
    """I8: a job starts once under each token, and its tokens grow."""
    for job_id, runs in history.runs_by_job().items():
        owners: dict[int, JobRun] = {}
        newest: JobRun | None = None
        for run in runs:
            if (first := owners.setdefault(run.assignment, run)) is not run:
                yield (
                    f"job {job_id} started twice under token {run.assignment}:"
                    f" in {first.node} {first.pid} and {run.node} {run.pid}"
                )
            stale = newest is not None and run.assignment < newest.assignment
            if stale and not woke_up_starting(run, history):
                yield f"job {job_id} started on {run.node} under a stale token"
            newest = run if newest is None or not stale else newest


def woke_up_starting(run: JobRun, history: History) -> bool:
    """Whether the run's process was stopped while it started this job, which excuses the start."""
    for fault in history.faults:
        if fault.frozen and run.pid in fault.pids:
            woken = [
                it
                for it in history.runs
                if it.pid == run.pid and -NOTING <= it.began - fault.ended <= WAKING
            ]
            if run in woken[:1]:
                return True
    return False


def effects_once(history: History) -> Iterator[str]:
    """I9: a job completed in its handler's transaction has written one row, any other job none."""
    committing = {run.job_id for run in history.runs if run.how == "committed"}
    kinds = {
        enqueued.intent
        for enqueued in history.enqueues.values()
        if enqueued.kind.startswith("effect")
    }
    for job in history.jobs.values():
        effects = history.effects.get(job.job_id, 0)
        is_own = job.intent in kinds or job.job_id in committing
        wanted = 1 if is_own and job.state == "done" else 0
        if effects != wanted:
            yield f"job {job.job_id} ({job.intent}) is {job.state} with {effects} effects"
    for job_id in history.effects.keys() - history.jobs.keys():
        yield f"job {job_id} is not there and has effects"


def backlog_drains(history: History) -> Iterator[str]:
    """I10: once all faults are over, the backlog drains within a minute."""
    if (drain := history.drain) is None:
        yield "the run did not come to its end"
        return
    if drain.left:
        yield f"{drain.left} jobs were left {drain.ended - drain.healed:.1f} s after the faults"
    elif drain.ended - drain.healed > DRAINED_WITHIN:
        yield f"the backlog took {drain.ended - drain.healed:.1f} s to drain"
    left = Counter(job.state for job in history.jobs.values() if job.state not in FINAL)
    if left and not drain.left:
        yield f"jobs came back after the end: {dict(left)}"


def faults_happened(history: History) -> Iterator[str]:
    """Report faults without evidence that they happened: such a run proves nothing."""
    for fault in history.faults:
        if not fault.evidence:
            yield f"nothing shows that this happened: {fault.kind}"


INVARIANTS = (
    ("I1", nothing_lost),
    ("I2", nothing_unasked),
    ("I3", nothing_early),
    ("I4", nothing_expired),
    ("I5", groups_apart),
    ("I5", no_stale_commit),
    ("I6", nothing_after_completion),
    ("I7", duplicates_have_cause),
    ("I8", one_owner),
    ("I9", effects_once),
    ("I10", backlog_drains),
    ("fault", faults_happened),
)
