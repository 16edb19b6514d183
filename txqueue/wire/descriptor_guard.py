"""Keeps descriptors for the process's own needs: no port takes the last ones for connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from twisted.logger import Logger

from txqueue.system.descriptors import has_spare_descriptors

__all__ = ["DescriptorGuard"]

# Seconds between entries in the log.
_QUIET: Final = 60.0


class DescriptorGuard:
    """Refuses connections while the process has no descriptors to spare.

    Args:
        has_spare: Tells whether it has; by default for probes, operators and peers.
    """

    log = Logger()

    def __init__(self, has_spare: Callable[[], bool] | None = None) -> None:
        self._has_spare = has_spare or partial(has_spare_descriptors, is_essential=True)
        self._logged_at = float("-inf")

    @property
    def may_accept(self) -> bool:
        """Whether a connection may be accepted; a refusal is logged, once a minute."""
        if self._has_spare():
            return True
        now = time.monotonic()
        if now - self._logged_at >= _QUIET:
            self._logged_at = now
            self.log.warn(
                "connections are refused: nearly all descriptors of this process are in use, and"
                " the rest is kept for workers and the database; raise its limit (ulimit -n,"
                " LimitNOFILE=)"
            )
        return False
