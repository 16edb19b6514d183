"""One job: its life, its attempts, its payload and result, and why it does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from txqueue.errors import InvalidWork, JobNotFound, TxqueueError
from txqueue.model.humanize import amount, counted, duration
from txqueue.model.keys import key_texts
from txqueue.model.operator_acts import ACTS, Act
from txqueue.policy.findings.explanation import Explanation
from txqueue.policy.findings.reason import DAMAGE_REMEDY
from txqueue.store.inquiries.jobs import about_archived_days
from txqueue.store.reads import job_details
from txqueue.store.reads.steps import about_relatives, about_steps
from txqueue.web.messages import Reply
from txqueue.web.page_services import PageVisit, found_or
from txqueue.web.relations import relations

# What delays a job by a time or limit that the application or an operator has chosen.
_PLANNED = frozenset({"time", "rate", "limit", "throttled"})
# Its last error says the same.
_SAID = frozenset({"failed", "quarantine"})
_NO_STEPS: Final[dict[str, Any]] = {"steps": [], "signals": []}
_STEPS_SHOWN: Final = 50

_FIRST_ACTS = ("retry", "restart", "cancel")


async def job(visit: PageVisit) -> Reply:
    """Show all that is stored about a job."""
    job_id = _number(visit)
    row = await _found(visit, job_id)
    explanation = await _explained(visit, job_id) if row["state"] != "done" else None
    if explanation is not None and explanation.reason in _SAID:
        explanation = None
    options = row["options"] if isinstance(row["options"], dict) else {}
    relatives = await visit.find(about_relatives, job_id, options.get("after"))
    has_parents = relatives["parents"] or "parents" in options
    batch, steps = None, _NO_STEPS
    if has_parents:
        # Its history may be gone, or counting take too long.
        batch = await found_or(None, visit.find(job_details.about_batch, job_id))
    if "steps" in options:
        # The table has none of an archived job.
        steps = await found_or(_NO_STEPS, visit.find(about_steps, job_id, _STEPS_SHOWN))
    # The first has waited the longest.
    waiting = (step for step in steps["steps"] if step["signal"] and not step["ended_at"])
    return visit.show(
        "job",
        HTTPStatus.OK,
        job=row,
        why=explanation,
        is_expected=is_expected(explanation),
        relatives=relatives,
        graph=relations(row, relatives, steps["steps"]),
        batch=batch,
        steps=steps["steps"],
        most_steps=_STEPS_SHOWN,
        signals=steps["signals"],
        awaited=next(waiting, {}),
        ended=ended_text(batch) if batch else "",
        damage_remedy=DAMAGE_REMEDY,
        timeline=timeline(row),
        keys=key_texts(row["policy"]),
        acts={} if row.get("archived") else _further_acts(row["state"]),
        now=row["at"],
    )


def _further_acts(state: str) -> dict[str, Act]:
    """Return the acts on a job besides those whose buttons stand beside its number."""
    return {
        name: act
        for name, act in ACTS.items()
        if name not in _FIRST_ACTS and act.face and act.face.button and state in act.states
    }


def _number(visit: PageVisit) -> int:
    text = visit.request.names["id"]
    if not text.isdecimal() or len(text) > 18:
        raise JobNotFound(f"there is no job {text[:50]}", "a job's number has only digits")
    return int(text)


async def value(visit: PageVisit) -> Reply:
    """Send the whole payload or result of a job as a file."""
    text = await visit.find(job_details.about_text, _number(visit), _last(visit))
    return Reply(body=f"{text}\n".encode(), kind="application/json")


async def payload_form(visit: PageVisit) -> Reply:
    """Show a form with the payload of a job, to edit it or to enqueue a copy of the job."""
    text = await visit.find(job_details.about_text, _number(visit), "payload")
    return visit.show("payload", payload=text, word=_last(visit), trouble=None)


async def put_payload(visit: PageVisit) -> Reply:
    """Edit a job's payload, or enqueue a copy with that of the form; ask again if it is wrong."""
    job_id, text, word = _number(visit), visit.request.sent("payload") or "", _last(visit)
    await visit.find(job_details.about_text, job_id, "payload")
    try:
        shown, told = await (_copy if word == "copy" else _edit)(visit, job_id, text)
    except InvalidWork as error:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return visit.show("payload", status, payload=text, word=word, trouble=error)
    return visit.told(told, f"/jobs/{shown}")


async def _copy(visit: PageVisit, job_id: int, text: str) -> tuple[int, str]:
    """Enqueue a copy; return which job is to be shown, and what to tell."""
    new_id, is_new = await visit.enqueue("repeat", {"job_id": job_id, "payload": text})
    if not is_new:
        return new_id, f"No copy of job {job_id} is enqueued: this job has its unique key."
    return new_id, f"This is a copy of job {job_id}."


async def _edit(visit: PageVisit, job_id: int, text: str) -> tuple[int, str]:
    changed, _ = await visit.act("edit", {"ids": [job_id], "to": text})
    if not changed:
        return job_id, f"Job {job_id} is left unchanged: it does not wait any more."
    return job_id, f"Job {job_id} has another payload now."


def _last(visit: PageVisit) -> str:
    return visit.request.path.rpartition("/")[2]


async def _found(visit: PageVisit, job_id: int) -> dict[str, Any]:
    """Return all that is stored about a job, or what the archive has of it."""
    try:
        return await visit.find(job_details.about_job, job_id)
    except JobNotFound:
        days = await visit.find(about_archived_days, job_id)
        row = await visit.archive.job(days, job_id)
        if row is None:
            raise
    return await visit.find(job_details.about_archived_job, row)


async def _explained(visit: PageVisit, job_id: int) -> Explanation | None:
    """Return why a job does not run; a fault of that shows in its place, with the rest."""
    try:
        return await visit.find(job_details.about_obstacles, job_id)
    except JobNotFound:
        # It has just ended, and its history is gone.
        return None
    except TxqueueError as error:
        what = f"this could not be read: {error.what}"
        return Explanation(job_id, "", "unknown", what, error.remedy)


def is_expected(explanation: Explanation | None) -> bool:
    """Tell whether a job runs or waits as it should, so that no operator needs to act."""
    if explanation is None:
        return False
    return explanation.remedy.startswith("nothing") or explanation.reason in _PLANNED


def ended_text(batch: Mapping[str, Any]) -> str:
    """Return the progress of a batch: ``950 of 1,000 jobs have ended: 947 done, 3 failed``."""
    count = batch["jobs"] - batch["left"]
    verb = "has" if batch["jobs"] == 1 else "have"
    summary = f"{amount(count)} of {counted(batch['jobs'], 'job')} {verb} ended"
    by_state = ", ".join(
        f"{amount(batch[state])} {state}" for state in job_details.ENDS if batch[state]
    )
    return f"{summary}: {by_state}" if by_state else summary


def timeline(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the moments of a job's life in order, each with the time since the one before."""
    marks = [("enqueued", job["enqueued_at"])]
    if job["not_before"] > job["enqueued_at"] and not job["wait"]:
        marks.append(("due", job["not_before"]))
    marks += [(f"stage {stage['work_type']} done", stage["ended"]) for stage in job["stages"]]
    is_last = _is_ended_by_attempt(job)
    failures = [(_failed(attempt, job["stages"]), attempt["at"]) for attempt in job["attempts"]]
    marks += failures[:-1] if is_last else failures
    marks += [("claimed", job["assigned_at"]), ("started", job["started_at"])]
    marks.append((f"{failures[-1][0]} for good" if is_last else job["state"], job["finished_at"]))
    dated = sorted(((at, name) for name, at in marks if at is not None))
    return [
        {
            "name": name,
            "at": at,
            "after": None if index == 0 else duration((at - dated[index - 1][0]).total_seconds()),
        }
        for index, (at, name) in enumerate(dated)
    ]


def _is_ended_by_attempt(job: Mapping[str, Any]) -> bool:
    """Tell whether a failed job has failed by its last attempt: they are one moment of its life."""
    if job["state"] != "failed" or not job["attempts"]:
        return False
    last_attempt = job["attempts"][-1]
    is_last: bool = (
        last_attempt["attempt"] == job["attempt"] and last_attempt.get("restarted_by") is None
    )
    return is_last and bool(last_attempt["at"] >= (job["assigned_at"] or last_attempt["at"]))


def _failed(attempt: Mapping[str, Any], stages: Sequence[object]) -> str:
    if attempt.get("restarted_by") is not None:
        return f"restarted by {attempt['restarted_by']}"
    of_stage = f" of {attempt['work_type']}" if stages else ""
    return f"attempt {attempt['attempt']}{of_stage} failed"
