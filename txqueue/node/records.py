"""What writes down how jobs end, as the services see it that must wait for that."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Records"]


class Records(Protocol):
    """What writes down how jobs end."""

    @property
    def mark(self) -> int:
        """Stands for all that was noted so far."""

    def has_written(self, mark: int) -> bool:
        """Tell whether all is written that had been noted at a mark."""
