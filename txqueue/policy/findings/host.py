"""What can be wrong on this host: certificates, private keys, admin sockets, the keys of payloads,
the archive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from txqueue.model.humanize import age, joined
from txqueue.policy.findings.finding import FAULT, WARNING, Finding, Row, Topic

WORK: Final = Topic()
FILES: Final = Topic()

# Seconds before a certificate's end.
SOON: Final = 30 * 86_400.0
_OTHERS: Final = 0o077


@WORK.rows("payload-keys", "payload_keys", WARNING)
def _payload_keys(row: Row) -> Iterator[Finding]:
    if row["error"] is not None:
        yield Finding(
            row["error"],
            "clients and nodes with this environment do not start",
            row["remedy"],
            severity=FAULT,
        )
    elif row["work_types"] and not row["has_key"]:
        yield Finding(
            f"payloads of {joined(row['work_types'])} are encrypted, and this environment has no"
            f" {row['variable']}",
            "clients and nodes with this environment can neither enqueue nor run them",
            f"run txqueue doctor with the environment of a node, or set {row['variable']}",
        )


@WORK.rows("archive", "archive", WARNING)
def _archive(row: Row) -> Iterator[Finding]:
    if row["error"] is not None:
        yield Finding(
            f"the archive {row['location']} cannot be used from this host: {row['error']}",
            "history that is not archived is not dropped either, and grows",
            "make it reachable and writable for the accounts of nodes",
        )


@FILES.rows("certificates", "certificates", FAULT)
def _certificates(row: Row) -> Iterator[Finding]:
    if row["error"] is not None:
        yield Finding(row["error"], "a node with this --tls-dir does not start", row["remedy"])
    elif (left := row["seconds_left"]) < SOON:
        when = f"expired {age(-left)} ago" if left <= 0 else f"expires in {age(left)}"
        yield Finding(
            f"{row['path']} {when}",
            "peers, operators and clients refuse an expired certificate",
            "issue another with txqueue certs, and restart the node",
            severity=FAULT if left <= 0 else WARNING,
        )


@FILES.rows("private-keys", "private_keys", FAULT)
def _private_keys(row: Row) -> Iterator[Finding]:
    if row["mode"] & _OTHERS:
        what = f"{row['path']} has mode {row['mode']:04o}: other accounts can use it"
        why = "they can pose as its holder, and a node refuses to start with it"
        yield Finding(what, why, f"chmod 600 {row['path']}")


@FILES.rows("admin-sockets", "admin_sockets", FAULT)
def _sockets(row: Row) -> Iterator[Finding]:
    if row["mode"] & _OTHERS:
        yield Finding(
            f"the admin socket {row['path']} has mode {row['mode']:04o}: other accounts can use it",
            "they can cancel jobs and drain the node",
            f"chmod 600 {row['path']}",
        )
