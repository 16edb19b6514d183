"""Checks of roles and of what they may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.policy.diagnosis.finding import Check, Finding, Row, fault, warning
from txqueue.policy.diagnosis.tables import listed

__all__ = ["CHECKS"]


def _own_rights(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if not row["may_use"] or not row["may_call"]:
            yield fault(
                f"the role {row['role']} may not use the schema {row['schema']}",
                "its statements are refused",
                f"grant {row['schema']}_worker (or _enqueue, _read) to {row['role']}",
            )


def _roles(rows: Sequence[Row]) -> Iterator[Finding]:
    missing = [row["role"] for row in rows if not row["exists"]]
    if missing:
        yield warning(
            f"roles are missing: {', '.join(missing)}",
            "nodes and applications then need the owner's rights, which are too many",
            "run: txqueue migrate, as a role that may create roles",
        )


def _excess(rows: Sequence[Row]) -> Iterator[Finding]:
    for role, rights in _by_role(rows).items():
        yield warning(
            f"the role {role} has more rights than txqueue grants: {listed(rights)}",
            "its members can change jobs behind the stored functions",
            f"revoke them from {role}",
        )


def _lacking(rows: Sequence[Row]) -> Iterator[Finding]:
    for role, rights in _by_role(rows).items():
        yield fault(
            f"the role {role} lacks rights: {listed(rights)}",
            "statements of its members are refused, as after a restore without grants",
            "run: txqueue migrate, which grants them again",
        )


def _by_role(rows: Sequence[Row]) -> dict[str, list[str]]:
    by_role: dict[str, list[str]] = {}
    for row in rows:
        by_role.setdefault(row["role"], []).append(row["right"])
    return by_role


def _public_rights(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        yield fault(
            f"PUBLIC has rights: {listed([row['right'] for row in rows])}",
            "every login of the database can use them",
            "revoke them from public, or run: txqueue migrate, which does that for functions",
        )


def _channel_readers(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        roles = [row["role"] for row in rows]
        yield warning(
            f"roles have rights to the table node_channel: {listed(roles)}",
            "who knows the name of a node's channel can read its jobs there, and send it others",
            f"revoke all on {rows[0]['schema']}.node_channel from {', '.join(roles)} cascade",
        )


CHECKS: Final = (
    Check("own-rights", "own_rights", _own_rights),
    Check("roles", "roles", _roles),
    Check("lacking-rights", "lacking_rights", _lacking),
    Check("excess-rights", "excess_rights", _excess),
    Check("public-rights", "public_rights", _public_rights),
    Check("channel-readers", "channel_readers", _channel_readers),
)
"""The checks of roles and rights."""
