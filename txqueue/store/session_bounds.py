"""The bounds that the server keeps for a session, whatever becomes of its client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SET", "kept_alive", "of_a_master", "of_a_worker"]

# Behind a pooler the session is not this client's alone: nothing is set there.
SET: Final = """select set_config(name, value, false)
    from unnest(%s::text[], %s::text[]) as each (name, value)
    where pg_backend_pid() = %s"""

# The server ends the sessions of a host that died within 25 s, and their locks with them.
_KEPT_ALIVE: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
# A claim or a completion that waits longer for a lock tries again: others may use its connection.
_LOCK_PATIENCE: Final = 5.0
# Seconds that a handler's transaction may do nothing; its process may have been stopped.
_IDLE_WORKER: Final = 3600.0


def kept_alive() -> dict[str, str]:
    """Return the settings of any session that is held for long: its client's host may die."""
    return dict(_KEPT_ALIVE)


def of_a_master(patience: float) -> Mapping[str, str]:
    """Return the settings of a master's sessions.

    Args:
        patience: Seconds after which the master gives up a statement; so does the server, so that
            it commits nothing that the master no longer waits for.
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
