"""Test jobs: run handlers and queues in a test's own transaction, with pytest or without.

Each function with an `a` is a coroutine, for connections that do not block and handlers that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txqueue.late_imports import late_imports

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
    from txqueue.testing.connections import connected
    from txqueue.testing.databases import aclear, clear
    from txqueue.testing.performing import adrain, aperform, drain, perform
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

if not TYPE_CHECKING:
    # These import Twisted or more than pytest should load for tests that use none of them.
    __getattr__ = late_imports(
        __name__,
        {
            "assertions": (
                "Capture aall_enqueued aassert_enqueued all_enqueued arefute_enqueued"
                " assert_enqueued capture_enqueued refute_enqueued"
            ),
            "connections": "connected",
            "databases": "aclear clear",
            "performing": "adrain aperform drain perform",
            "running": "Outcome",
        },
    )
