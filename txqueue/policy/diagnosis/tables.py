"""Checks of the schema: version, functions, indexes, partitions, dead rows; and of roles and their
rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.model.humanize import age, amount
from txqueue.policy.diagnosis.finding import Check, Finding, Row, fault, warning

# Fewer dead rows in a table are no matter; more are one if they outnumber the live rows.
FEW_DEAD, DEAD_TO_LIVE = 100_000, 5
LISTED = 5
_MIGRATE = "run: txqueue migrate"


def _version(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        needed, number = row["needed"], row["number"]
        if number is None:
            yield fault(
                f"the schema {row['schema']} is not in this database",
                "nothing can be enqueued, and no node starts",
                f"{_MIGRATE}; or check --dsn and --schema",
            )
        elif number < needed:
            yield fault(
                f"the schema has version {number}, and this txqueue needs {needed}",
                "nodes and clients of this version refuse to work with it",
                _MIGRATE,
            )
        elif row["serves"] > needed:
            yield fault(
                f"the schema has version {number}, too new for this txqueue, which needs {needed}",
                "nodes and clients of this version refuse to work with it",
                "install the newer txqueue on this host",
            )


def _functions(rows: Sequence[Row]) -> Iterator[Finding]:
    missing = [row["name"] for row in rows if row["is_missing"]]
    if missing:
        yield fault(
            f"functions or views are missing: {listed(missing)}",
            "statements of nodes and clients fail",
            _MIGRATE,
        )
    others = [row["name"] for row in rows if not row["is_missing"]]
    if others:
        yield warning(
            f"functions differ from those of this release: {listed(others)}",
            "nodes and clients of this release get what another release made, or what was changed"
            " by hand",
            f"{_MIGRATE}, of the newest release that is in use",
        )


def _objects(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        yield fault(
            f"the schema lacks {listed([row['name'] for row in rows])}",
            "statements of nodes and clients fail or are slow, as after an incomplete restore",
            "restore them from a backup, or from a new schema: txqueue --schema other migrate",
        )


def _owners(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        names = listed([f"{row['kind']} {row['name']} ({row['owner']})" for row in rows])
        yield fault(
            f"objects do not belong to the schema's owner {rows[0]['rightful']}: {names}",
            "its functions may not use them, and the owner cannot migrate",
            f"{_MIGRATE}, once as a superuser, which gives them to the owner",
        )


def _indexes(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        yield fault(
            f"the index {row['index']} of {row['table']} is not valid",
            "queries do not use it and read the whole table instead",
            f"reindex index concurrently {row['schema']}.{row['index']}",
        )


def _history_days(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        yield fault(
            f"partitions of today or tomorrow are missing: {listed([row['leaf'] for row in rows])}",
            "jobs that end on such a day cannot be written to history, and stay assigned",
            f"start a node, which creates them, or {_MIGRATE}",
        )


def _sequences(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        names = listed([row["name"] for row in rows])
        yield fault(
            f"sequences are behind their tables: {names}",
            "numbers are given twice, or jobs are not found, as after logical replication",
            f"start a node, which sets them, or {_MIGRATE}",
        )


def _dead_rows(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        dead, live = row["dead"], row["live"]
        if dead < FEW_DEAD or dead < DEAD_TO_LIVE * live:
            continue
        since = row["truncated_seconds"]
        last = "" if since is None else f"; a lane was last truncated {age(since)} ago"
        yield warning(
            f"{row['table']} has {amount(dead)} dead rows and {amount(live)} live ones{last}",
            "claims and queries read dead rows too, and become slow",
            "end what the checks of the horizon name, run a node, then: "
            f"vacuum {row['schema']}.{row['table']}",
        )


def listed(names: Sequence[str]) -> str:
    """Return names joined by commas; of many, only the first ones."""
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


CHECKS: Final = (
    Check("schema-version", "schema_version", _version),
    Check("functions", "other_functions", _functions),
    Check("objects", "missing_objects", _objects),
    Check("rows", "missing_rows", _objects),
    Check("owners", "strays", _owners),
    Check("indexes", "invalid_indexes", _indexes),
    Check("history-days", "missing_days", _history_days),
    Check("sequences", "lagging_sequences", _sequences),
    Check("dead-rows", "dead_rows", _dead_rows),
)
"""The checks of the schema and its tables."""


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


PRIVILEGE_CHECKS: Final = (
    Check("own-rights", "own_rights", _own_rights),
    Check("roles", "roles", _roles),
    Check("lacking-rights", "lacking_rights", _lacking),
    Check("excess-rights", "excess_rights", _excess),
    Check("public-rights", "public_rights", _public_rights),
    Check("channel-readers", "channel_readers", _channel_readers),
)
"""The checks of roles and rights."""
