"""Why a node has left jobs unchanged, as the commands that act on jobs show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict

from txqueue.cli.output import Lines, styled
from txqueue.errors import AdminRefused

if TYPE_CHECKING:
    from txqueue.admin import Admin
    from txqueue.policy.blockers import Explanation

__all__ = ["refusal_lines", "refusals"]

_LISTED = 10


async def refusals(
    admin: Admin,
    act: str,
    refused: Sequence[int],
    errors: Mapping[int, AdminRefused] | None = None,
) -> list[dict[str, Any]]:
    """Return why an act was refused for the first of some jobs, for the key ``reasons``.

    Args:
        admin: The link to the node.
        act: The name of the act.
        refused: The numbers of the jobs.
        errors: What the node has said about some of them.
    """
    from txqueue.policy.blockers import EXPLAINED

    said = errors or {}
    return [
        asdict(
            _of_error(job_id, said[job_id])
            if job_id in said
            else await _refusal(admin, act, job_id)
        )
        for job_id in refused[:EXPLAINED]
    ]


def refusal_lines(reasons: Sequence[Mapping[str, Any]]) -> Lines:
    """Yield the first of the reasons for people."""
    from txqueue.policy.blockers import Explanation, refusal_text

    for why in reasons[:_LISTED]:
        yield styled(refusal_text(Explanation(**why)))


async def _refusal(admin: Admin, act: str, job_id: int) -> Explanation:
    from txqueue.policy.blockers import explain_refusal

    try:
        return explain_refusal(act, await admin.explain(job_id))
    except AdminRefused as error:
        return _of_error(job_id, error)


def _of_error(job_id: int, error: AdminRefused) -> Explanation:
    from txqueue.policy.blockers import Explanation

    return Explanation(job_id, "", "unknown", error.what, error.remedy)
