"""Checks of the nodes, and of this host's files: certificates, private keys, admin sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.model.humanize import age, joined
from txqueue.policy.diagnosis.finding import Check, Finding, Row, Severity, fault, warning
from txqueue.policy.facts.obstacles import SERVING, remedy_if_silent, served_queues, worker_obstacle
from txqueue.policy.facts.warnings import (
    application_warnings,
    crowded_workers,
    refused,
    standstill,
    unable_workers,
    without_workers,
)

NO_NODE: Final = "running-nodes"
"""The check that finds that no node runs, from which others follow."""


def _standstill(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        last = row["last"]
        what, remedy = standstill(
            row["jobs"], row["schedules"], last, last["silent"] if last else 0.0
        )
        yield fault(what, "no job runs, and no schedule makes any", remedy)


def _dead(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["state"] == "dead" and row.get("lacking_right"):
            yield fault(
                f"node {row['name']} is dead: no heartbeat for {age(row['silent'])}, as"
                f" {row['lacking_right']}",
                "the database refuses its statements, if its process runs",
                remedy_if_silent(row, ""),
            )
        elif row["state"] == "dead":
            yield warning(
                f"node {row['name']} is dead: no heartbeat for {age(row['silent'])}",
                _why_dead(row, rows),
                remedy_if_silent(row, "ignore this until its row is deleted"),
            )


def _why_dead(dead: Row, rows: Sequence[Row]) -> str:
    served = served_queues(rows, SERVING)
    left = sorted(queue for queue in dead["queues"] if queue not in served)
    if not left:
        return "the others do its work"
    return f"jobs of its {'queue' if len(left) == 1 else 'queues'} {joined(left)} do not run"


def _refused(rows: Sequence[Row]) -> Iterator[Finding]:
    for warned in refused(rows):
        yield fault(
            warned["what"],
            "it cannot do that part of its work: claim jobs, write their ends, renew its lease",
            warned["remedy"],
        )


def _workers(rows: Sequence[Row]) -> Iterator[Finding]:
    for warned in without_workers(rows):
        yield fault(
            warned["what"],
            "jobs of its queues wait until another node serves them",
            warned["remedy"],
        )


def _unable_workers(rows: Sequence[Row]) -> Iterator[Finding]:
    stopped = {row["name"] for row in rows if _has_obstacle(row["report"] or {})}
    for warned in unable_workers(rows):
        yield Finding(
            Severity.FAULT if warned["subject"] in stopped else Severity.WARNING,
            warned["what"],
            "jobs start late, or not at all if no worker of their queue is left",
            warned["remedy"],
        )
    for warned in crowded_workers(rows):
        yield warning(
            warned["what"],
            "jobs start late, and heavy ones not at all",
            warned["remedy"],
        )


def _has_obstacle(report: Row) -> bool:
    obstacle = worker_obstacle(report)
    return obstacle is not None and not obstacle.is_passing


def _versions(rows: Sequence[Row]) -> Iterator[Finding]:
    by_version: dict[str, list[str]] = {}
    for row in rows:
        if row["state"] in SERVING:
            by_version.setdefault(row["version"], []).append(row["name"])
    if len(by_version) > 1:
        version_texts = (
            f"{version} ({', '.join(names)})" for version, names in sorted(by_version.items())
        )
        yield warning(
            f"live nodes run different versions: {'; '.join(version_texts)}",
            "that is meant for the time of an upgrade only",
            "upgrade and restart the older nodes",
        )


def _applications(rows: Sequence[Row]) -> Iterator[Finding]:
    for warned in application_warnings(rows):
        yield warning(
            warned["what"],
            "that is meant for the time of a deploy only: jobs run by the code of either version",
            warned["remedy"],
        )


def _not_forked(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        obstacle = (row["report"] or {}).get("not_forked")
        if row["state"] in SERVING and obstacle is not None:
            yield warning(
                f"node {row['name']} starts its workers one by one: importing the application"
                f" {obstacle}",
                "each worker takes the memory of a whole import, and a dead one is replaced slowly",
                "start or open that at its first use, not at import, or set --worker-start spawn",
            )


CHECKS: Final = (
    Check(NO_NODE, "standstill", _standstill),
    Check("dead-nodes", "nodes", _dead, unless=NO_NODE),
    Check("refused-statements", "nodes", _refused),
    Check("running-workers", "nodes", _workers),
    Check("unable-workers", "nodes", _unable_workers),
    Check("node-versions", "nodes", _versions),
    Check("application-versions", "nodes", _applications),
    Check("unforked-workers", "nodes", _not_forked),
)
"""The checks of the nodes."""


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


FILE_CHECKS: Final = (
    Check("certificates", "certificates", _certificates),
    Check("private-keys", "private_keys", _private_keys),
    Check("admin-sockets", "admin_sockets", _sockets),
)
"""The checks of this host's files."""
