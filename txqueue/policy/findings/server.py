"""What can be wrong with the server: version, settings, connections, notifications, clock, and what
holds vacuum back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from txqueue.model.humanize import age, amount, duration
from txqueue.policy.findings.finding import FAULT, WARNING, Finding, Row, Topic

SERVER: Final = Topic()
HORIZON: Final = Topic()

OLDEST, NEWEST = 14, 18
# The parts of a limit of connections in use that are a warning and a fault.
MANY, TOO_MANY = 0.8, 0.95
# The parts of the notification queue in use that are a warning and a fault.
FILLING, FULL = 0.25, 0.75
# Seconds between the clocks of this host and of the server.
APART = 2.0
# Milliseconds: an application's transaction may rest for about as long.
SHORT_REST = 5000
_SYNCHRONOUS = ("on", "remote_write", "remote_apply")


@SERVER.rows("connection", "connection", FAULT)
def _connection(row: Row) -> Iterator[Finding]:
    yield Finding(row["what"], "no client and no node can work", row["remedy"])


@SERVER.rows("server-version", "settings", FAULT)
def _version(row: Row) -> Iterator[Finding]:
    major = row["version_number"] // 10_000
    if major < OLDEST:
        yield Finding(
            f"the server is PostgreSQL {row['version']}, older than {OLDEST}",
            "the schema uses features that it lacks",
            f"upgrade the server to PostgreSQL {OLDEST} to {NEWEST}",
        )
    elif major > NEWEST:
        yield Finding(
            f"the server is PostgreSQL {row['version']}, newer than {NEWEST}",
            "this txqueue was not tested with it",
            "upgrade txqueue, or run its tests against this version",
            severity=WARNING,
        )


@SERVER.rows("encoding", "settings", FAULT)
def _encoding(row: Row) -> Iterator[Finding]:
    if row["encoding"] != "UTF8":
        yield Finding(
            f"the database {row['database']} has the encoding {row['encoding']}",
            "it cannot store every payload, and the queue cannot be migrated there",
            "dump it, and restore it into one made with: create database ... encoding 'UTF8'",
        )


@SERVER.rows("writable", "settings", FAULT)
def _writable(row: Row) -> Iterator[Finding]:
    if row["is_standby"]:
        yield Finding(
            "the server is a standby: it accepts no writes",
            "no job can be enqueued, claimed or completed there",
            "name all hosts in the DSN, with target_session_attrs=read-write",
        )
    elif row["default_transaction_read_only"] == "on":
        yield Finding(
            "transactions are read-only by default",
            "no job can be enqueued, claimed or completed",
            "reset default_transaction_read_only of the server, the database and the role",
        )


@SERVER.rows("durability", "settings", FAULT)
def _durability(row: Row) -> Iterator[Finding]:
    for name in ("fsync", "full_page_writes"):
        if row[name] == "off":
            yield Finding(
                f"{name} is off",
                "a crash of the server's host can corrupt the database and lose jobs",
                f"set {name} = on",
            )
    if row["synchronous_commit"] == "off":
        yield Finding(
            "synchronous_commit is off",
            "a crash of the server loses the latest enqueued jobs, and repeats done ones",
            "set synchronous_commit = on, or accept the loss",
            severity=WARNING,
        )


@SERVER.rows("synchronous-standby", "synchronous_standbys", FAULT)
def _standby(row: Row) -> Iterator[Finding]:
    if row["names"] and not row["connected"] and row["level"] in _SYNCHRONOUS:
        yield Finding(
            f"no synchronous standby of {row['names']!r} is connected",
            "every commit waits until one connects",
            "start the standby, or reset synchronous_standby_names",
        )


@SERVER.rows("isolation", "settings", FAULT)
def _isolation(row: Row) -> Iterator[Finding]:
    level = row["default_transaction_isolation"]
    if level != "read committed":
        yield Finding(
            f"transactions are {level} by default",
            "a node refuses to start: it would not see the writes of others",
            "alter role ... set default_transaction_isolation = 'read committed'",
        )


@SERVER.rows("autovacuum", "settings", FAULT)
def _autovacuum(row: Row) -> Iterator[Finding]:
    if row["autovacuum"] == "off":
        yield Finding(
            "autovacuum is off for the whole server",
            "tables grow, claims become slow, and transaction numbers run out at last",
            "set autovacuum = on",
        )


@SERVER.rows("track-counts", "settings", FAULT)
def _track_counts(row: Row) -> Iterator[Finding]:
    if row["track_counts"] == "off":
        yield Finding(
            "track_counts is off",
            "autovacuum does not learn which tables have dead rows",
            "set track_counts = on",
        )


@SERVER.rows("jit", "settings", WARNING)
def _jit(row: Row) -> Iterator[Finding]:
    # txqueue switches JIT off in its own sessions, except behind a pooler.
    if row["jit"] == "on":
        yield Finding(
            "jit is on in sessions of this DSN, which leads through a pooler",
            "compiling makes short statements such as heartbeats many times slower",
            "alter role ... set jit = off, for the roles of nodes and clients",
        )


@SERVER.rows("session-settings", "other_settings", WARNING)
def _settings(row: Row) -> Iterator[Finding]:
    # txqueue sets these in its own sessions, except behind a pooler.
    yield Finding(
        f"{row['name']} is {row['given']!r} in sessions of this DSN, behind a pooler",
        "values are read or written in another form than txqueue expects",
        f"alter role ... set {row['name']} = '{row['needed']}', for the roles of nodes and clients",
    )


@SERVER.rows("idle-limit", "settings", WARNING)
def _idle_limit(row: Row) -> Iterator[Finding]:
    limit = row["idle_limit"]
    if 0 < limit < SHORT_REST:
        yield Finding(
            f"idle_in_transaction_session_timeout is {duration(limit / 1000)}",
            "the server ends transactions of applications that rest a little longer",
            "set idle_in_transaction_session_timeout to a minute or more",
        )


@SERVER.rows("connections", "connections", WARNING)
def _connections(row: Row) -> Iterator[Finding]:
    part = row["used"] / max(row["allowed"], 1)
    if part < MANY:
        return
    yield Finding(
        f"{row['used']} of {row['allowed']} connections of the {row['whose']} are in use",
        "nodes and clients cannot connect once all are",
        "raise the limit, use fewer workers, or a pooler for applications",
        severity=FAULT if part >= TOO_MANY else WARNING,
    )


@SERVER.rows("notifications", "notifications", WARNING)
def _notifications(row: Row) -> Iterator[Finding]:
    if not row["is_received"]:
        yield Finding(
            f"a notification did not arrive within {duration(row['patience'])}",
            "nodes then poll, and jobs start up to seconds later; a pooler in transaction"
            " mode does that",
            "give nodes a DSN of the server itself, or of a pooler in session mode",
        )


@SERVER.rows("notification-queue", "notification_queue", WARNING)
def _notification_queue(row: Row) -> Iterator[Finding]:
    if row["part"] >= FILLING:
        yield Finding(
            f"the queue of notifications is {row['part']:.0%} full",
            "once it is full, transactions that notify fail, and so do enqueues",
            "end the listening session whose transaction is the oldest in pg_stat_activity",
            severity=FAULT if row["part"] >= FULL else WARNING,
        )


@SERVER.rows("clock", "clock", WARNING)
def _clock(row: Row) -> Iterator[Finding]:
    # Half of the trip is how wrong the measurement may be.
    if abs(row["offset"]) - row["trip"] / 2 > APART:
        side = "behind" if row["offset"] > 0 else "ahead of"
        yield Finding(
            f"this host's clock is {duration(abs(row['offset']))} {side} the server's",
            "jobs enqueued for a moment run early or late, and logs do not match",
            "synchronize the clocks of both hosts with NTP",
        )


# Seconds.
LONG = 600.0
# How far back a standby's oldest transaction may be, in transactions: it reports no time.
FAR_BACK = 100_000
_WHY = "vacuum removes no row that was deleted since then, and claims become slow"


@HORIZON.rows("long-transactions", "transactions", WARNING)
def _transactions(row: Row) -> Iterator[Finding]:
    if row["holds_rows"] and row["seconds"] >= LONG:
        yield Finding(
            f"{_session(row)} has had a transaction open for {age(row['seconds'])}",
            _WHY,
            f"end it in its program, or: select pg_terminate_backend({row['pid']})",
        )


@HORIZON.rows("idle-transactions", "transactions", WARNING)
def _idle_transactions(row: Row) -> Iterator[Finding]:
    is_idle = (row["state"] or "").startswith("idle in transaction")
    if is_idle and not row["holds_rows"] and row["seconds"] >= LONG:
        yield Finding(
            f"{_session(row)} is idle in a transaction, open for {age(row['seconds'])}",
            "it keeps its locks, on which migrations and truncations of lanes wait",
            f"end it in its program, or: select pg_terminate_backend({row['pid']});"
            " idle_in_transaction_session_timeout prevents it",
        )


def _session(row: Row) -> str:
    return f"the session of {row['name']} (pid {row['pid']})"


@HORIZON.rows("prepared-transactions", "prepared_transactions", WARNING)
def _prepared(row: Row) -> Iterator[Finding]:
    if row["seconds"] >= LONG:
        yield Finding(
            f"the transaction {row['gid']!r} of {row['owner']} was prepared"
            f" {age(row['seconds'])} ago and has not ended",
            _WHY,
            "commit prepared or rollback prepared it",
        )


@HORIZON.rows("replication-slots", "replication_slots", WARNING)
def _slots(row: Row) -> Iterator[Finding]:
    # Before PostgreSQL 17 a slot does not say since when it is not in use.
    if row["seconds"] is not None and row["seconds"] < LONG:
        return
    since = "" if row["seconds"] is None else f" for {age(row['seconds'])}"
    yield Finding(
        f"the replication slot {row['name']} has had no reader{since}",
        _WHY if row["holds_rows"] else "the server keeps all WAL for it, until the disk is full",
        f"start its reader, or: select pg_drop_replication_slot('{row['name']}')",
    )


@HORIZON.rows("standby-feedback", "standby_feedback", WARNING)
def _feedback(row: Row) -> Iterator[Finding]:
    if row["transactions"] >= FAR_BACK:
        yield Finding(
            f"the standby {row['name']} (pid {row['pid']}) still needs rows of"
            f" {amount(row['transactions'])} transactions ago",
            _WHY,
            "end the long query there, or set hot_standby_feedback = off on the standby",
        )
