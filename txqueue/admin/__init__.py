"""Lets Python programs operate a cluster, by requests to any of its nodes.

The AMP commands that `Admin` sends are exported too, for clients without it.
"""

from txqueue.admin.client import Admin, JobsPage, Restarted
from txqueue.errors import AdminRefused
from txqueue.model.operator_acts import Cancelled
from txqueue.policy.findings.explanation import Explanation
from txqueue.wire.admin_commands import (
    ACT_COMMANDS,
    Explain,
    GetJob,
    GetStatus,
    ListActions,
    ListControls,
    ListJobs,
    ListNodes,
    ListQueues,
)

__all__ = [
    "Admin",
    "AdminRefused",
    "CancelJobs",
    "Cancelled",
    "DrainNode",
    "Explain",
    "Explanation",
    "GetJob",
    "GetStatus",
    "JobsPage",
    "ListActions",
    "ListControls",
    "ListJobs",
    "ListNodes",
    "ListQueues",
    "Pause",
    "RestartJobs",
    "Restarted",
    "Resume",
    "RetryJobs",
    "SetLimit",
    "SetPriority",
    "UndrainNode",
]

CancelJobs = ACT_COMMANDS["cancel"]
DrainNode = ACT_COMMANDS["drain_node"]
Pause = ACT_COMMANDS["pause"]
RestartJobs = ACT_COMMANDS["restart"]
Resume = ACT_COMMANDS["resume"]
RetryJobs = ACT_COMMANDS["retry"]
SetLimit = ACT_COMMANDS["set_limit"]
SetPriority = ACT_COMMANDS["set_priority"]
UndrainNode = ACT_COMMANDS["undrain_node"]
