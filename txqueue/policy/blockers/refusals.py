"""Why an act of an operator has left a job unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve

from txqueue.policy.blockers.explanation import Explanation

__all__ = ["EXPLAINED", "explain_refusal", "refusal_text"]

EXPLAINED = 100
"""How many refused jobs an act explains; each takes a query."""

_LONGEST = 300


def explain_refusal(act: str, why: Explanation) -> Explanation:
    """Return why an act has left a job unchanged.

    Args:
        act: ``cancel``, ``restart``, ``retry``, ``postpone`` or ``set_priority``.
        why: The explanation of the job.
    """
    return why if why.reason == "damaged" else _REFUSALS[act](why)


def refusal_text(why: Explanation) -> str:
    """Return a refusal as a sentence for people."""
    detail = (why.detail.splitlines() or [""])[0]
    shortened = detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]}..."
    remedy = f"; {why.remedy}" if why.remedy else ""
    return f"Job {why.job_id}: {shortened}{remedy}."


def _not_retried(why: Explanation) -> Explanation:
    if why.state in ("failed", "cancelled"):
        return why
    if why.state == "done":
        return evolve(why, remedy=f"to run it once more: txqueue repeat {why.job_id}")
    return evolve(why, detail=f"it has not ended: {why.detail}")


def _not_restarted(why: Explanation) -> Explanation:
    if why.state == "assigned":
        return evolve(
            why,
            detail="an open transaction has locked its row, perhaps as it ends",
            remedy=f"once that has ended, if it still runs: txqueue restart {why.job_id}",
        )
    if why.state in ("waiting", "ready"):
        return evolve(why, detail=f"it does not run: {why.detail}")
    return _not_retried(why)


def _not_cancelled(why: Explanation) -> Explanation:
    return evolve(why, remedy="nothing: it has ended")


def _of_old_priority(why: Explanation) -> Explanation:
    if why.state == "assigned":
        return evolve(why, detail=f"a node has claimed it: {why.detail}", remedy=_TOO_LATE)
    return evolve(why, remedy=_TOO_LATE)


_TOO_LATE = "nothing: a priority only decides when a job is claimed"
_REFUSALS: Mapping[str, Callable[[Explanation], Explanation]] = {
    "cancel": _not_cancelled,
    "restart": _not_restarted,
    "retry": _not_retried,
    "postpone": _not_retried,
    "set_priority": _of_old_priority,
}
