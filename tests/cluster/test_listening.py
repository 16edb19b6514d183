"""Where nodes listen for peers, and with which certificates; what does not do is refused."""

from pathlib import Path

import pytest

from tests.cluster.commands import refused
from tests.cluster.database import Database
from tests.cluster.nodes import APP, PATIENCE, TLS, Nodes
from tests.cluster.peers import certificates, connected, free_port, hand, meshed, share_of
from tests.waiting import eventually


def said(db: Database, *arguments: str) -> str:
    """Start a node that must not start; returns its one line."""
    return refused("--app", APP, "--name", "a", *arguments, TXQUEUE_DSN=db.dsn, **TLS)


@pytest.mark.parametrize(
    ("option", "interface"),
    [("--listen", "0.0.0.0"), ("--listen", "[::]"), ("--admin", "192.0.2.1")],
)
def test_beyond_this_host_only_with_tls(option: str, interface: str, db: Database) -> None:
    """The error says why the node does not start, with the remedy."""
    line = said(db, option, f"tcp:{free_port()}:interface={interface}")
    assert "other interfaces need mutual TLS; give --tls-dir" in line
    assert "txqueue certs issue" in line


def test_a_socket_is_no_place_for_peers(db: Database) -> None:
    """They are on other hosts, too."""
    assert "give --listen tcp:PORT" in said(db, "--listen", "unix:/tmp/a.sock")


def test_two_options_with_one_port(db: Database) -> None:
    """It is said before the node starts; one of the two would not be served."""
    port = f"tcp:{free_port()}"
    line = said(db, "--health", port, "--metrics", port)
    assert "--health and --metrics name the same port" in line
    assert "give each a port of its own" in line


async def test_nodes_meet_over_tls(nodes: Nodes, db: Database, tmp_path: Path) -> None:
    """Each with its own certificate; a node of another authority works without peers."""
    names = ("a", "b c")
    ours = certificates(tmp_path / "ours", *names)
    theirs = certificates(tmp_path / "theirs", "stranger")
    started = [
        nodes.start(
            *("--listen", f"tcp:{free_port()}:interface=0.0.0.0:host=127.0.0.1"),
            *("--tls-dir", str(folder), "--workers", "1", "--capacity", "10"),
            # What goes back to the queue it could claim, as it is no peer for that.
            *("--queues", "default" if folder == ours else "elsewhere"),
            name=name,
            TXQUEUE_LEASE="8",
            **TLS,
        )
        for folder, name in [(ours, "a"), (ours, "b c"), (theirs, "stranger")]
    ]
    await meshed(started[:2])
    stranger = await started[2].up()
    hand(db, started[0], 60, 0.3)
    await eventually(lambda: db.states() == {"done": 60}, PATIENCE)
    assert share_of(db).keys() == {node.folder.name for node in started[:2]}
    assert await connected(stranger) == set()
    # The node that connects logs in the end that it cannot reach the other.
    await eventually(lambda: any("cannot be reached" in node.log for node in started), PATIENCE)
