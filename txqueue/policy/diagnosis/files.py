"""Checks of this host's files: certificates, private keys, admin sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.model.humanize import age
from txqueue.policy.diagnosis.finding import Check, Finding, Row, Severity, fault

__all__ = ["CHECKS"]

# Seconds before a certificate's end.
SOON = 30 * 86_400.0
_OTHERS = 0o077


def _certificates(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["error"] is not None:
            yield fault(row["error"], "a node with this --tls-dir does not start", row["remedy"])
        elif (left := row["seconds_left"]) < SOON:
            when = f"expired {age(-left)} ago" if left <= 0 else f"expires in {age(left)}"
            yield Finding(
                Severity.FAULT if left <= 0 else Severity.WARNING,
                f"{row['path']} {when}",
                "peers, operators and clients refuse an expired certificate",
                "issue another with txqueue certs, and restart the node",
            )


def _private_keys(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["mode"] & _OTHERS:
            yield fault(
                f"{row['path']} has mode {row['mode']:04o}: other accounts can use it",
                "they can pose as its holder, and a node refuses to start with it",
                f"chmod 600 {row['path']}",
            )


def _sockets(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["mode"] & _OTHERS:
            yield fault(
                f"the admin socket {row['path']} has mode {row['mode']:04o}: other accounts can"
                " use it",
                "they can cancel jobs and drain the node",
                f"chmod 600 {row['path']}",
            )


CHECKS: Final = (
    Check("certificates", "certificates", _certificates),
    Check("private-keys", "private_keys", _private_keys),
    Check("admin-sockets", "admin_sockets", _sockets),
)
"""The checks of this host's files."""
