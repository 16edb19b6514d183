"""Why a job does not run, and what would make it run: decided from facts of the database."""

from txqueue.policy.blockers.explanation import (
    EXPLAINED,
    Explanation,
    explain,
    explain_archived,
    explain_refusal,
    judged,
    refusal_text,
)
from txqueue.policy.blockers.limits import DAMAGE_REMEDY
from txqueue.policy.blockers.reason import Blocker, Gravity

__all__ = [
    "DAMAGE_REMEDY",
    "EXPLAINED",
    "Blocker",
    "Explanation",
    "Gravity",
    "explain",
    "explain_archived",
    "explain_refusal",
    "judged",
    "refusal_text",
]
