"""What several unit tests start and stop."""

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from tests.unit.wire.mesh import Member, Start, stopped


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts members; all are stopped at the end."""
    members: list[Member] = []

    def made(*arguments: Any) -> Member:
        member = Member(*arguments)
        members.append(member)
        member.peers.startService()
        return member

    yield made
    pytest_twisted.blockon(Deferred.fromCoroutine(stopped(members)))
