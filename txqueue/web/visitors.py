"""Who visits the dashboard, and what each may do."""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen

__all__ = ["Role", "Visitor"]


class Role(IntEnum):
    """What a visitor may do; a higher role may do all that a lower one may."""

    STRANGER = 0
    VIEWER = 1
    OPERATOR = 2


@frozen
class Visitor:
    """A person who uses the dashboard.

    Attributes:
        name: The name that acts are recorded with.
        role: What the person may do.
        can_leave: Whether the person logged in, and so can log out.
    """

    name: str
    role: Role
    can_leave: bool = False

    @property
    def may_act(self) -> bool:
        """Whether the person may change anything."""
        return self.role >= Role.OPERATOR
