"""What can be wrong with the schema: version, functions, indexes, partitions, dead rows; and with
roles and their rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.model.humanize import age, amount, joined
from txqueue.policy.findings.finding import FAULT, WARNING, Finding, Row, Topic

TABLES: Final = Topic()
PRIVILEGES: Final = Topic()

# Fewer dead rows in a table are no matter; more are one if they outnumber the live rows.
FEW_DEAD, DEAD_TO_LIVE = 100_000, 5
_MIGRATE = "run: txqueue migrate"


@TABLES.rows("schema-version", "schema_version", FAULT)
def _version(row: Row) -> Iterator[Finding]:
    needed, number = row["needed"], row["number"]
    if number is None:
        yield Finding(
            f"the schema {row['schema']} is not in this database",
            "nothing can be enqueued, and no node starts",
            f"{_MIGRATE}; or check --dsn and --schema",
        )
    elif number < needed:
        yield Finding(
            f"the schema has version {number}, and this txqueue needs {needed}",
            "nodes and clients of this version refuse to work with it",
            _MIGRATE,
        )
    elif row["serves"] > needed:
        yield Finding(
            f"the schema has version {number}, too new for this txqueue, which needs {needed}",
            "nodes and clients of this version refuse to work with it",
            "install the newer txqueue on this host",
        )


@TABLES.check("functions", "other_functions", FAULT)
def _functions(rows: Sequence[Row]) -> Iterator[Finding]:
    missing = [row["name"] for row in rows if row["is_missing"]]
    if missing:
        yield Finding(
            f"functions or views are missing: {joined(missing)}",
            "statements of nodes and clients fail",
            _MIGRATE,
        )
    others = [row["name"] for row in rows if not row["is_missing"]]
    if others:
        yield Finding(
            f"functions differ from those of this release: {joined(others)}",
            "nodes and clients of this release get what another release made, or what was changed"
            " by hand",
            f"{_MIGRATE}, of the newest release that is in use",
            severity=WARNING,
        )


@TABLES.check("rows", "missing_rows", FAULT)
@TABLES.check("objects", "missing_objects", FAULT)
def _objects(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        yield Finding(
            f"the schema lacks {joined([row['name'] for row in rows])}",
            "statements of nodes and clients fail or are slow, as after an incomplete restore",
            "restore them from a backup, or from a new schema: txqueue --schema other migrate",
        )


@TABLES.check("owners", "strays", FAULT)
def _owners(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        names = joined([f"{row['kind']} {row['name']} ({row['owner']})" for row in rows])
        yield Finding(
            f"objects do not belong to the schema's owner {rows[0]['rightful']}: {names}",
            "its functions may not use them, and the owner cannot migrate",
            f"{_MIGRATE}, once as a superuser, which gives them to the owner",
        )


@TABLES.rows("indexes", "invalid_indexes", FAULT)
def _indexes(row: Row) -> Iterator[Finding]:
    yield Finding(
        f"the index {row['index']} of {row['table']} is not valid",
        "queries do not use it and read the whole table instead",
        f"reindex index concurrently {row['schema']}.{row['index']}",
    )


@TABLES.check("history-days", "missing_days", FAULT)
def _history_days(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        yield Finding(
            f"partitions of today or tomorrow are missing: {joined([row['leaf'] for row in rows])}",
            "jobs that end on such a day cannot be written to history, and stay assigned",
            f"start a node, which creates them, or {_MIGRATE}",
        )


@TABLES.check("sequences", "lagging_sequences", FAULT)
def _sequences(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        names = joined([row["name"] for row in rows])
        yield Finding(
            f"sequences are behind their tables: {names}",
            "numbers are given twice, or jobs are not found, as after logical replication",
            f"start a node, which sets them, or {_MIGRATE}",
        )


@TABLES.rows("dead-rows", "dead_rows", WARNING)
def _dead_rows(row: Row) -> Iterator[Finding]:
    dead, live = row["dead"], row["live"]
    if dead < FEW_DEAD or dead < DEAD_TO_LIVE * live:
        return
    since = row["truncated_seconds"]
    last = "" if since is None else f"; a lane was last truncated {age(since)} ago"
    yield Finding(
        f"{row['table']} has {amount(dead)} dead rows and {amount(live)} live ones{last}",
        "claims and queries read dead rows too, and become slow",
        "end what the checks of the horizon name, run a node, then: "
        f"vacuum {row['schema']}.{row['table']}",
    )


@PRIVILEGES.rows("own-rights", "own_rights", FAULT)
def _own_rights(row: Row) -> Iterator[Finding]:
    if not row["may_use"] or not row["may_call"]:
        yield Finding(
            f"the role {row['role']} may not use the schema {row['schema']}",
            "its statements are refused",
            f"grant {row['schema']}_worker (or _enqueue, _read) to {row['role']}",
        )


@PRIVILEGES.check("roles", "roles", WARNING)
def _roles(rows: Sequence[Row]) -> Iterator[Finding]:
    missing = [row["role"] for row in rows if not row["exists"]]
    if missing:
        yield Finding(
            f"roles are missing: {', '.join(missing)}",
            "nodes and applications then need the owner's rights, which are too many",
            "run: txqueue migrate, as a role that may create roles",
        )


@PRIVILEGES.check("lacking-rights", "lacking_rights", FAULT)
def _lacking(rows: Sequence[Row]) -> Iterator[Finding]:
    for role, rights in _by_role(rows).items():
        yield Finding(
            f"the role {role} lacks rights: {joined(rights)}",
            "statements of its members are refused, as after a restore without grants",
            "run: txqueue migrate, which grants them again",
        )


@PRIVILEGES.check("excess-rights", "excess_rights", WARNING)
def _excess(rows: Sequence[Row]) -> Iterator[Finding]:
    for role, rights in _by_role(rows).items():
        yield Finding(
            f"the role {role} has more rights than txqueue grants: {joined(rights)}",
            "its members can change jobs behind the stored functions",
            f"revoke them from {role}",
        )


def _by_role(rows: Sequence[Row]) -> dict[str, list[str]]:
    by_role: dict[str, list[str]] = {}
    for row in rows:
        by_role.setdefault(row["role"], []).append(row["right"])
    return by_role


@PRIVILEGES.check("public-rights", "public_rights", FAULT)
def _public_rights(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        yield Finding(
            f"PUBLIC has rights: {joined([row['right'] for row in rows])}",
            "every login of the database can use them",
            "revoke them from public, or run: txqueue migrate, which does that for functions",
        )


@PRIVILEGES.check("channel-readers", "channel_readers", WARNING)
def _channel_readers(rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        roles = [row["role"] for row in rows]
        yield Finding(
            f"roles have rights to the table node_channel: {joined(roles)}",
            "who knows the name of a node's channel can read its jobs there, and send it others",
            f"revoke all on {rows[0]['schema']}.node_channel from {', '.join(roles)} cascade",
        )
