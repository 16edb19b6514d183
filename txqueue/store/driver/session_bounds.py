"""Settings of the server for a session: limits that hold even if its client dies, plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Seconds in which a host must answer; shorter with several hosts or addresses, so that the next is
# tried soon.
CONNECTS_WITHIN: Final = 10.0
CONNECTS_WITHIN_OF_SEVERAL: Final = 3.0
# Parameters of a connection. The kernel's defaults are hours for a silent connection, and 15
# minutes for unacknowledged data.
NOTICING: Final = {
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
LONGEST_LIFE: Final = 1800.0
"""Seconds after which a connection is replaced, because the caches of its backend only grow, and so
that all connections reach a new server after a switch. The same as HikariCP's ``maxLifetime``.
"""

_SETTINGS: Final = """
    from unnest(%s::text[], %s::text[]) as each (name, value)
    where current_setting(name, true) is distinct from value
      and current_setting(name, true) is not null"""
# Behind a pooler nothing is set, because clients share the session. An older server lacks some.
SET: Final = f"select set_config(name, value, false) {_SETTINGS} and pg_backend_pid() = %s"
SET_LOCAL: Final = f"select set_config(name, value, true) {_SETTINGS}"

# A parameter of the connection, as every pooler keeps it for each client. With another encoding,
# a text that it lacks would make a claim fail, and all jobs behind it wait.
ENCODED: Final = {"client_encoding": "UTF8"}
# The server's defaults of what changes how it reads statements and writes values: a role, a
# database or PGOPTIONS may set others. Not standard_conforming_strings: psycopg2 would still write
# strings by the value that it found when it connected. No statement has a backslash instead.
PLAIN: Final = {
    "array_nulls": "on",
    "bytea_output": "hex",
    "DateStyle": "ISO, MDY",
    "extra_float_digits": "1",
    "gin_fuzzy_search_limit": "0",
    "IntervalStyle": "postgres",
    "quote_all_identifiers": "off",
    "transform_null_equals": "off",
}
# No limit of time, for a transaction that may take long.
UNLIMITED: Final = {
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
# The server compiles a statement whose estimated cost is high, as that of calls of functions and of
# many partitions is: a heartbeat took 50 ms instead of 1.6.
WITHOUT_JIT: Final = {"jit": "off"}
# Of the session of a command or another process without a reactor.
OF_A_TOOL: Final = {**PLAIN, **WITHOUT_JIT}
# For a transaction of which a pooler may lend the session to others.
UNCOMPILED: Final = "set local jit = off; "
# A page must be read in the order of an index; without statistics the planner would sort the whole
# table.
TO_READ: Final = f"{UNCOMPILED}set local enable_sort = off; set transaction read only; "
# The server ends the sessions of a dead host within 25 s, and releases their locks.
KEPT_ALIVE: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "idle_session_timeout": "0",
    **WITHOUT_JIT,
}
# A claim that waits longer for a lock is retried, so that its connection is free for others; of
# completions, those that are not locked. Not shorter than what `may_notify` asks for.
_LOCK_PATIENCE: Final = 2.0
# Seconds for which a handler's transaction may be idle, as its process may be suspended.
_IDLE_WORKER: Final = 3600.0


def as_arrays(settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the names and the values of settings, as `SET` and `SET_LOCAL` take them."""
    return list(settings), list(settings.values())


def of_a_master(patience: float) -> Mapping[str, str]:
    """Return the settings of a master's sessions.

    Args:
        patience: Seconds after which the master gives up a statement. The server ends it a little
            sooner, but not its commit, which may wait longer for a disk or a synchronous standby.
    """
    milliseconds = str(round(patience * 1000))
    # A little sooner, so that the master learns whether the server or the way to it is slow.
    sooner = str(round(patience * 900))
    return {
        **KEPT_ALIVE,
        **PLAIN,
        "transaction_timeout": "0",
        "statement_timeout": sooner,
        "idle_in_transaction_session_timeout": milliseconds,
        "lock_timeout": str(round(min(_LOCK_PATIENCE, patience / 2) * 1000)),
        "client_connection_check_interval": "1000",
    }


# Of the sessions in which handlers complete their jobs. They run statements of the application
# there, so all other settings are those of its role.
OF_A_WORKER: Final = {
    **KEPT_ALIVE,
    "idle_in_transaction_session_timeout": str(round(_IDLE_WORKER * 1000)),
    "client_connection_check_interval": "1000",
}
