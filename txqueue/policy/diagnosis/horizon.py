"""Checks of what keeps vacuum from removing dead rows, and of transactions that are idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from txqueue.model.humanize import age, amount
from txqueue.policy.diagnosis.finding import Check, Finding, Row, warning

__all__ = ["CHECKS"]

# Seconds.
LONG = 600.0
# How far back a standby's oldest transaction may be, in transactions: it reports no time.
FAR_BACK = 100_000
_WHY = "vacuum removes no row that was deleted since then, and claims become slow"


def _transactions(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["holds_rows"] and row["seconds"] >= LONG:
            yield warning(
                f"{_session(row)} has had a transaction open for {age(row['seconds'])}",
                _WHY,
                f"end it in its program, or: select pg_terminate_backend({row['pid']})",
            )


def _idle_transactions(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        is_idle = (row["state"] or "").startswith("idle in transaction")
        if is_idle and not row["holds_rows"] and row["seconds"] >= LONG:
            yield warning(
                f"{_session(row)} is idle in a transaction, open for {age(row['seconds'])}",
                "it keeps its locks, on which migrations and truncations of lanes wait",
                f"end it in its program, or: select pg_terminate_backend({row['pid']});"
                " idle_in_transaction_session_timeout prevents it",
            )


def _session(row: Row) -> str:
    return f"the session of {row['name']} (pid {row['pid']})"


def _prepared(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["seconds"] >= LONG:
            yield warning(
                f"the transaction {row['gid']!r} of {row['owner']} was prepared"
                f" {age(row['seconds'])} ago and has not ended",
                _WHY,
                "commit prepared or rollback prepared it",
            )


def _slots(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        # Before PostgreSQL 17 a slot does not say since when it is not in use.
        if row["seconds"] is not None and row["seconds"] < LONG:
            continue
        since = "" if row["seconds"] is None else f" for {age(row['seconds'])}"
        yield warning(
            f"the replication slot {row['name']} has had no reader{since}",
            _WHY
            if row["holds_rows"]
            else "the server keeps all WAL for it, until the disk is full",
            f"start its reader, or: select pg_drop_replication_slot('{row['name']}')",
        )


def _feedback(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["transactions"] >= FAR_BACK:
            yield warning(
                f"the standby {row['name']} (pid {row['pid']}) still needs rows of"
                f" {amount(row['transactions'])} transactions ago",
                _WHY,
                "end the long query there, or set hot_standby_feedback = off on the standby",
            )


CHECKS: Final = (
    Check("long-transactions", "transactions", _transactions),
    Check("idle-transactions", "transactions", _idle_transactions),
    Check("prepared-transactions", "prepared_transactions", _prepared),
    Check("replication-slots", "replication_slots", _slots),
    Check("standby-feedback", "standby_feedback", _feedback),
)
"""The checks of the horizon."""
