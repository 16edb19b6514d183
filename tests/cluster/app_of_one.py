"""An application that only one of several nodes has."""

from attrs import define

from tests.cluster.app import Noted, OnOtherQueue

__all__ = ["KnownToOne", "OnOtherQueue"]


@define
class KnownToOne(Noted):
    """Work that no other node knows."""
