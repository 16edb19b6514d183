"""Test jobs: run handlers and queues in a test's own transaction, with pytest or without.

Each function with an `a` is a coroutine, for connections that do not block and handlers that wait.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txqueue.testing.assertions import (
        Capture,
        aall_enqueued,
        aassert_enqueued,
        all_enqueued,
        arefute_enqueued,
        assert_enqueued,
        capture_enqueued,
        refute_enqueued,
    )
    from txqueue.testing.clearing import aclear, clear
    from txqueue.testing.connections import connected
    from txqueue.testing.draining import adrain, drain
    from txqueue.testing.performing import aperform, perform
    from txqueue.testing.running import Outcome

__all__ = [
    "Capture",
    "Outcome",
    "aall_enqueued",
    "aassert_enqueued",
    "aclear",
    "adrain",
    "all_enqueued",
    "aperform",
    "arefute_enqueued",
    "assert_enqueued",
    "capture_enqueued",
    "clear",
    "connected",
    "drain",
    "perform",
    "refute_enqueued",
]

# These import Twisted or more than pytest should load for tests that use none of them.
_HOMES = {
    "aclear": "clearing",
    "adrain": "draining",
    "aperform": "performing",
    "clear": "clearing",
    "connected": "connections",
    "Outcome": "running",
    "drain": "draining",
    "perform": "performing",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any name for one of this module.
    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = f"txqueue.testing.{_HOMES.get(name, 'assertions')}"
        globals()[name] = value = getattr(import_module(home), name)
        return value
