"""Why a job does not run, and what would make it run: decided from facts of the database."""

from txqueue.policy.blockers.explanation import Explanation, explain, explain_archived, judged
from txqueue.policy.blockers.reason import Blocker, Gravity
from txqueue.policy.blockers.refusals import EXPLAINED, explain_refusal, refusal_text
from txqueue.policy.blockers.unreadable import DAMAGE_REMEDY

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
