"""The proxy that does harm: each harm is done, and counted, and nothing else is."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from txqueue_torture.frames import Frames, statement_of
from txqueue_torture.proxy import Address, Cut, Direction, Proxy

PATIENCE = 10.0
SHORT = 0.2


def message(kind: bytes, body: bytes) -> bytes:
    """A message of PostgreSQL's protocol."""
    return kind + struct.pack("!i", 4 + len(body)) + body


def query(sql: str) -> bytes:
    """A statement of the simple protocol."""
    return message(b"Q", sql.encode() + b"\0")


STARTUP = struct.pack("!ii", 8, 196608)
READY = message(b"Z", b"I")


def _serve(listener: socket.socket, heard: list[bytes]) -> None:
    """Answer each statement with a notification and a ready, as a server might."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, heard), daemon=True).start()


def _answer(connection: socket.socket, heard: list[bytes]) -> None:
    frames = Frames(is_client=True)
    with suppress(OSError), connection:
        while data := connection.recv(1 << 16):
            for each in frames.fed(data):
                if sql := statement_of(each):
                    heard.append(sql.encode())
                    connection.sendall(message(b"A", b"wake up") + READY)


@pytest.fixture
def heard() -> list[bytes]:
    """The statements that have reached the server."""
    return []


@pytest.fixture
def proxy(tmp_path: Path, heard: list[bytes]) -> Iterator[Proxy]:
    """A proxy in front of a server that answers."""
    target = tmp_path / "server"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(target))
    listener.listen()
    thread = threading.Thread(target=_serve, args=(listener, heard), daemon=True)
    thread.start()
    with Proxy(Address(target), Address(tmp_path / "proxy")) as proxy:
        yield proxy
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(PATIENCE)


@contextmanager
def connected(tmp_path: Path) -> Iterator[socket.socket]:
    """A client that has said hello."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(tmp_path / "proxy"))
        # A proxy that refuses is gone by now.
        with suppress(ConnectionError):
            client.sendall(STARTUP)
        yield client


def asked(client: socket.socket, sql: str) -> bytes:
    """What comes back for a statement, up to the end of the answer; empty if it was cut."""
    answer = b""
    with suppress(ConnectionError):
        client.sendall(query(sql))
        while not answer.endswith(READY):
            if not (data := client.recv(1 << 16)):
                return b""
            answer += data
    return answer


@pytest.mark.usefixtures("proxy")
def test_it_passes_everything_on(tmp_path: Path, heard: list[bytes]) -> None:
    """Unharmed."""
    with connected(tmp_path) as client:
        assert asked(client, "select 1") == message(b"A", b"wake up") + READY
    assert heard == [b"select 1"]


def test_a_slow_link_passes_everything_on(proxy: Proxy, tmp_path: Path, heard: list[bytes]) -> None:
    """And counts what was slowed."""
    proxy.speed = 1_000_000
    with connected(tmp_path) as client:
        assert asked(client, "select 1") == message(b"A", b"wake up") + READY
    assert heard == [b"select 1"]
    assert proxy.counts["slowed"] == len(STARTUP) + len(query("select 1"))


def test_a_cut_before_keeps_the_statement_from_the_server(
    proxy: Proxy, tmp_path: Path, heard: list[bytes]
) -> None:
    """The client learns nothing, and nothing has happened."""
    proxy.cut_at(Cut(lambda sql: sql == "commit", is_after=False))
    with connected(tmp_path) as client:
        assert asked(client, "insert")
        assert asked(client, "COMMIT") == b""
    assert heard == [b"insert"]
    assert (proxy.counts["before"], proxy.counts["after"]) == (1, 0)


def test_a_cut_after_loses_only_the_answer(
    proxy: Proxy, tmp_path: Path, heard: list[bytes]
) -> None:
    """The client learns nothing, and it has happened."""
    proxy.cut_at(Cut(lambda sql: sql == "commit", is_after=True))
    with connected(tmp_path) as client:
        assert asked(client, "COMMIT") == b""
    assert heard == [b"COMMIT"]
    assert (proxy.counts["before"], proxy.counts["after"]) == (0, 1)


def test_every_so_many_are_cut(proxy: Proxy, tmp_path: Path) -> None:
    """The others pass."""
    proxy.cut_at(Cut(lambda _: True, is_after=False, every=3))
    with connected(tmp_path) as client:
        assert asked(client, "1")
        assert asked(client, "2")
        assert asked(client, "3") == b""


def test_notifications_are_dropped_and_counted(proxy: Proxy, tmp_path: Path) -> None:
    """Out of the middle of what the server says."""
    proxy.drops_notifications = True
    with connected(tmp_path) as client:
        assert asked(client, "select 1") == READY
    assert proxy.counts["notifications"] == 1


def test_who_is_refused_is_counted(proxy: Proxy, tmp_path: Path) -> None:
    """Its time is recorded too."""
    proxy.refuses = True
    with connected(tmp_path) as client:
        assert asked(client, "select 1") == b""
    assert proxy.counts["refused"] == len(proxy.accepted_at) == 1


def test_all_connections_are_cut_at_once(proxy: Proxy, tmp_path: Path) -> None:
    """New ones work."""
    with connected(tmp_path) as client:
        assert asked(client, "select 1")
        assert proxy.cut() == 1
        assert asked(client, "select 1") == b""
    with connected(tmp_path) as client:
        assert asked(client, "select 1")


@pytest.mark.parametrize("ways", [(), (Direction.UP,), (Direction.DOWN,)])
def test_what_is_swallowed_gets_no_answer_for_ever(
    proxy: Proxy, tmp_path: Path, heard: list[bytes], ways: tuple[Direction, ...]
) -> None:
    """Not even when the proxy is healed; a new connection works."""
    with connected(tmp_path) as client:
        assert asked(client, "before")
        proxy.swallow(*ways)
        client.settimeout(SHORT)
        with pytest.raises(TimeoutError):
            asked(client, "lost")
        assert proxy.counts["swallowed"] > 0
        proxy.heal()
        with pytest.raises(TimeoutError):
            asked(client, "still lost")
    assert (b"lost" in heard) == (ways == (Direction.DOWN,))
    with connected(tmp_path) as client:
        assert asked(client, "after")


def test_what_is_held_comes_when_it_is_healed(
    proxy: Proxy, tmp_path: Path, heard: list[bytes]
) -> None:
    """As a network does that was cut for a while."""
    with connected(tmp_path) as client:
        assert asked(client, "before")
        proxy.hold()
        client.settimeout(SHORT)
        with pytest.raises(TimeoutError):
            asked(client, "late")
        assert heard == [b"before"]
        proxy.heal()
        client.settimeout(PATIENCE)
        assert client.recv(1 << 16)
    assert heard == [b"before", b"late"]


def test_a_server_that_is_away_is_counted(tmp_path: Path) -> None:
    """The client is closed, not kept."""
    with Proxy(Address(tmp_path / "absent"), Address(tmp_path / "proxy")) as proxy:
        with connected(tmp_path) as client:
            assert asked(client, "select 1") == b""
        assert proxy.counts["failed"] == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_messages_are_found_however_they_are_cut_up(size: int) -> None:
    """Byte by byte, or all at once."""
    stream = STARTUP + query("select 1") + query("commit")
    frames = Frames(is_client=True)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    found = [each for piece in pieces for each in frames.fed(piece)]
    assert b"".join(found) == stream
    assert [statement_of(each) for each in found] == ["", "select 1", "commit"]


def test_what_is_late_comes_in_order_and_whole(tmp_path: Path) -> None:
    """However late each part of it is; what comes on time afterwards does not overtake it."""
    target = tmp_path / "server"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(target))
        listener.listen()
        via = tmp_path / "via"
        with Proxy(Address(target), Address(via), speaks_postgres=False) as proxy:
            proxy.lateness = 0.05
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(via))
                server, _ = listener.accept()
                with server:
                    server.settimeout(PATIENCE)
                    sent = [b"%04d" % number for number in range(50)]
                    for each in sent[:25]:
                        client.sendall(each)
                    heard = server.recv(4)
                    proxy.lateness = 0.0
                    for each in sent[25:]:
                        client.sendall(each)
                    while len(heard) < 200:
                        heard += server.recv(1 << 16)
            assert heard == b"".join(sent)
            assert proxy.counts["late"] > 0
