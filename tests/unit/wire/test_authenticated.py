"""The admin endpoint at a port with TLS: only with a certificate."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from tests.cluster.peers import free_port
from tests.fixtures.node_inspection import inspect_node
from tests.unit.node.doubles import Loop, fake
from tests.unit.wire.mesh import LIMIT
from tests.unit.wire.test_peers import issued_with, wrong_authority
from tests.waiting import running_reactor, within
from txqueue.errors import NodeUnavailable
from txqueue.node.operators import AdminEndpoint
from txqueue.node.state.lease import Lifecycle
from txqueue.policy.health import Health
from txqueue.wire import guarded_pipes
from txqueue.wire.certificate_authority import issue, make_authority
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.pipe import Pipe, Responders
from txqueue.wire.tls import OPERATOR, Credentials


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority's folder with a node's and an operator's certificate."""
    make_authority(tmp_path / "tls")
    issue(tmp_path / "tls", "node", "a")
    issue(tmp_path / "tls", OPERATOR, "ann")
    return tmp_path / "tls"


class Told:
    """A node that says its name, and lets operators do nothing."""

    def describe(self) -> dict[str, str]:
        """Say it."""
        return {"name": "a"}

    def health(self) -> Health:
        """Say that it can start jobs."""
        return Health(live=True, ready=True, reason="ready")

    def responders(self, pipe: Pipe) -> Responders:
        """Nothing."""
        return {}

    def greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """No application joins at a port."""
        raise AssertionError(pipe)


@pytest.fixture
def endpoint(folder: Path) -> Iterator[Endpoint]:
    """Where a node answers."""
    place = Endpoint(None, free_port(), credentials=Credentials(folder, "a"))
    admin = AdminEndpoint(
        running_reactor(),
        place,
        description=fake(Told()),
        lifecycle=Lifecycle(fake(Loop())),
        operators=fake(Told()),
        guests=fake(Told()),
    )
    admin.startService()
    yield place
    pytest_twisted.blockon(admin.stopService())


def reached(endpoint: Endpoint, credentials: Credentials | None) -> Any:
    """Ask it how it is."""
    place = Endpoint(None, endpoint.port, credentials=credentials)
    return within(LIMIT, inspect_node(running_reactor(), place))


async def test_an_operator_is_answered(endpoint: Endpoint, folder: Path) -> None:
    """By the certificate; a node is too."""
    assert await reached(endpoint, Credentials(folder, "ann", OPERATOR)) == {"name": "a"}
    assert await reached(endpoint, Credentials(folder, "a")) == {"name": "a"}


async def test_no_other_account_is_accepted(
    endpoint: Endpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TLS, by another authority, or when the certificate has ended."""
    monkeypatch.setattr(guarded_pipes, "INTRODUCTION", 0.5)
    for credentials in (None, wrong_authority(folder), issued_with(folder, OPERATOR, -1)):
        with pytest.raises(NodeUnavailable):
            await reached(endpoint, credentials)
