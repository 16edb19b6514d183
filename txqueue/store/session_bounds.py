"""Settings of the server for a session: limits that hold even if its client dies, and no JIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SET", "WITHOUT_JIT", "kept_alive", "of_a_master", "of_a_worker"]

# Behind a pooler nothing is set, because clients share the session.
SET: Final = """select set_config(name, value, false)
    from unnest(%s::text[], %s::text[]) as each (name, value)
    where pg_backend_pid() = %s"""

# The server compiles a statement whose estimated cost is high, as that of calls of functions and of
# many partitions is: a heartbeat took 50 ms instead of 1.6.
WITHOUT_JIT: Final = {"jit": "off"}
# The server ends the sessions of a dead host within 25 s, and releases their locks.
_KEPT_ALIVE: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
    **WITHOUT_JIT,
}
# A claim or completion that waits longer for a lock is retried, so that its connection is free for
# others.
_LOCK_PATIENCE: Final = 5.0
# Seconds for which a handler's transaction may be idle, as its process may be suspended.
_IDLE_WORKER: Final = 3600.0


def kept_alive() -> dict[str, str]:
    """Return the settings by which the server ends a long session whose client's host has died."""
    return dict(_KEPT_ALIVE)


def of_a_master(patience: float) -> Mapping[str, str]:
    """Return the settings of a master's sessions.

    Args:
        patience: Seconds after which the master gives up a statement; the server does the same,
            so that nothing commits after that.
    """
    milliseconds = str(round(patience * 1000))
    return {
        **_KEPT_ALIVE,
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        "lock_timeout": str(round(min(_LOCK_PATIENCE, patience / 2) * 1000)),
        "client_connection_check_interval": "1000",
    }


def of_a_worker() -> Mapping[str, str]:
    """Return the settings of the sessions in which handlers complete their jobs."""
    return {
        **_KEPT_ALIVE,
        "idle_in_transaction_session_timeout": str(round(_IDLE_WORKER * 1000)),
        "client_connection_check_interval": "1000",
    }
