"""Why a job that some node could not read does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txqueue.policy.blockers.capacity import capable
from txqueue.policy.blockers.reason import Blocker, Facts, Gravity, joined, until

__all__ = ["unreadable"]


def unreadable(facts: Facts) -> Blocker:
    """Return which versions of its type could not read a job, and when it fails."""
    job, unread = facts["job"], facts["unread"]
    if untried := [each for each in capable(facts) if each.get("has_tried") is False]:
        return _for_other_workers(facts, untried)
    tried = [each for each in capable(facts) if each["has_tried"]]
    names = joined([_with_application(each) for each in tried])
    those = f" (tried by {names})" if names else ""
    left = f"; it fails {until(facts, unread['until'])}" if unread else ""
    return Blocker(
        "unreadable",
        f"no live node can read it{those}: {job['error']}{left}",
        f"start nodes whose {job['work_type']} has these fields;"
        f" if the payload is wrong: txqueue cancel {job['job_id']}",
        Gravity.FAULT,
        "unreadable_jobs",
    )


def _for_other_workers(facts: Facts, untried: Sequence[Mapping[str, Any]]) -> Blocker:
    """A worker that cannot read the job may take it before one that can, in the same node."""
    names = joined([_with_application(each) for each in untried])
    tries = f" it is tried again {until(facts, facts['job']['not_before'])}"
    return Blocker(
        "unreadable",
        f"a worker could not read it: {facts['job']['error']}; workers of another version may"
        f" ({names});{tries}",
        "nothing: such a worker runs it; to make all workers of a node alike: restart the node",
    )


def _with_application(node: Mapping[str, Any]) -> str:
    versions = ", ".join(node["applications"] or ())
    return f"{node['name']}, application {versions}" if versions else str(node["name"])
