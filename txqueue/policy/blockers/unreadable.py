"""Why a job that some node could not read does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from txqueue.model.humanize import joined
from txqueue.policy.blockers.capacity import capable, without_node
from txqueue.policy.blockers.reason import Blocker, Facts, Gravity, until

__all__ = ["DAMAGE_REMEDY", "damaged", "fixed", "in_clear", "unreadable"]

DAMAGE_REMEDY = "check the server's disks; restore the row from a backup, or enqueue the job again"


def damaged(facts: Facts) -> Blocker:
    """Return what of a job's row cannot be read, which makes the claim of the job fail it."""
    return Blocker(
        "damaged", f"{facts['damage']}; a node that takes it fails it", DAMAGE_REMEDY, Gravity.FAULT
    )


def fixed(blocker: Blocker, damage: str) -> Blocker:
    """Return that acts of operators leave an assigned or ended job as it is."""
    detail = f"{blocker.detail}; its row is damaged: {damage}"
    return evolve(blocker, reason="damaged", detail=detail, remedy=DAMAGE_REMEDY)


def in_clear(facts: Facts) -> Blocker:
    """Return that no node of an encrypted type reads a payload that is not encrypted."""
    job = facts["job"]
    return Blocker(
        "unreadable",
        f"its payload is in clear, but {job['work_type']} is encrypted: it was enqueued before a"
        " node had published that",
        f"txqueue cancel {job['job_id']}, and enqueue it again with a Python client that has"
        " TXQUEUE_PAYLOAD_KEY",
        Gravity.FAULT,
        "clear_payloads",
    )


def unreadable(facts: Facts) -> Blocker:
    """Return that no live node has a job's type, or which versions could not read it, and when it
    fails.
    """
    job, unread = facts["job"], facts["unread"]
    left = f"; it fails {until(facts, unread['until'])}" if unread else ""
    if (absent := next(without_node(facts), None)) is not None:
        return evolve(absent, detail=f"{absent.detail}{left}")
    if untried := [node for node in capable(facts) if node.get("has_tried") is False]:
        return _for_other_workers(facts, untried)
    tried = [node for node in capable(facts) if node["has_tried"]]
    names = joined([_with_application(node) for node in tried])
    those = f" (tried by {names})" if names else ""
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
    names = joined([_with_application(node) for node in untried])
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
