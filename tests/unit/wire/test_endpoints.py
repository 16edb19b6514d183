"""Endpoints: of this host only, free or not."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from txqueue.errors import ConfigurationError
from txqueue.wire.endpoints import parsed_endpoint
from txqueue.wire.tls import Credentials


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("unix:/run/a.sock", "unix:/run/a.sock"),
        ("tcp:8750", "tcp:8750:interface=127.0.0.1"),
        ("tcp:8750:interface=127.0.0.2", "tcp:8750:interface=127.0.0.2"),
        ("tcp:8750:interface=[::1]", "tcp:8750:interface=[::1]"),
        (r"tcp:8750:interface=\:\:1", "tcp:8750:interface=[::1]"),
        ("tcp:8750:host=127.0.0.3", "tcp:8750:interface=127.0.0.1:host=127.0.0.3"),
    ],
)
def test_an_endpoint_is_read(text: str, meant: str) -> None:
    """A port without an interface is of loopback, not of the whole world."""
    assert str(parsed_endpoint(text)) == meant


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not an endpoint"),
        ("unix:", "is not an endpoint"),
        ("8750", "is not an endpoint"),
        ("ssl:8750", "is not an endpoint"),
        ("tcp:port", "is not an endpoint"),
        ("tcp:8750:mode=600", "is not an endpoint"),
        ("tcp:0", "port 0 is not within 1 to 65535"),
        ("tcp:65536", "port 65536 is not within 1 to 65535"),
        ("tcp:8750:interface", "is not an endpoint"),
        ("tcp:8750:interface=127.0.0.1:mode=600", "is not an endpoint"),
        ("tcp:8750:interface=0.0.0.0", "not an address of this host's loopback"),
        ("tcp:8750:interface=[::]", "not an address of this host's loopback"),
        ("tcp:8750:interface=192.0.2.1", "other interfaces need mutual TLS"),
        ("tcp:8750:host=db.example", "other interfaces need mutual TLS"),
        ("tcp:8750:interface=localhost", "localhost is not an IP address"),
        ("unix:/" + "x" * 107, "longer than 107 bytes"),
    ],
)
def test_what_is_no_endpoint_of_this_host_is_refused(text: str, what: str) -> None:
    """With a remedy, before anything listens."""
    with pytest.raises(ConfigurationError) as caught:
        parsed_endpoint(text)
    assert what in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp:8750:interface=192.0.2.1", "192.0.2.1"),
        ("tcp:8750:interface=[2001:db8::1]", "2001:db8::1"),
        ("tcp:8750:interface=0.0.0.0", socket.gethostname()),
        ("tcp:8750:interface=[::]", socket.gethostname()),
        ("tcp:8750:interface=0.0.0.0:host=node.example", "node.example"),
    ],
)
def test_with_tls_any_interface_will_do(text: str, address: str, tmp_path: Path) -> None:
    """And it says by which address others reach it."""
    assert parsed_endpoint(text, Credentials(tmp_path, "a")).address == address


@pytest.fixture
def port() -> Iterator[int]:
    """A port in use."""
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_port_in_use_is_refused(port: int) -> None:
    """The error names the place and the remedy."""
    with pytest.raises(ConfigurationError, match=f"cannot listen at tcp:{port}.*in use"):
        parsed_endpoint(f"tcp:{port}").ensure_free()


def test_a_socket_in_use_is_refused(tmp_path: Path) -> None:
    """One that is left of a dead process is not in use."""
    path = tmp_path / "made" / "a.sock"
    endpoint = parsed_endpoint(f"unix:{path}")
    endpoint.ensure_free()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with closing(socket.socket(socket.AF_UNIX)) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ConfigurationError, match="another process listens there"):
            endpoint.ensure_free()
    endpoint.ensure_free()


def test_the_option_of_an_endpoint_is_named() -> None:
    """As it is written on the command line."""
    with pytest.raises(ConfigurationError, match="--listen is not valid: port 0 is not within"):
        parsed_endpoint("tcp:0", option="--listen")


def test_a_socket_in_use_has_a_remedy_of_its_own(tmp_path: Path) -> None:
    """A second node needs another name; a folder that cannot be used needs another folder."""
    (tmp_path / "file").touch()
    with closing(socket.socket(socket.AF_UNIX)) as other:
        other.bind(str(tmp_path / "a.sock"))
        other.listen()
        for path, remedy in (("a.sock", "another name"), ("file/a.sock", "another folder")):
            with pytest.raises(ConfigurationError, match=remedy):
                parsed_endpoint(f"unix:{tmp_path / path}").ensure_free(
                    "take another folder", "take another name"
                )


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """A folder that is a file, for instance."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot listen at unix:"):
        parsed_endpoint(f"unix:{tmp_path / 'file' / 'a.sock'}").ensure_free()


def test_a_folder_in_which_no_socket_can_be_made_is_refused(tmp_path: Path) -> None:
    """Before the node registers; nothing stays in a folder that can be used."""
    for unusable in ("/proc/self", "/sys/kernel"):
        with pytest.raises(ConfigurationError, match=r"cannot listen at unix:.*; choose another"):
            parsed_endpoint(f"unix:{unusable}/a.sock").ensure_free()
    parsed_endpoint(f"unix:{tmp_path / 'a.sock'}").ensure_free()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.sock", "a.sock.lock"])
def test_what_is_in_the_way_of_a_socket_is_named(tmp_path: Path, name: str) -> None:
    """A folder where the socket or its lock belongs; it stays."""
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigurationError, match=r"is not a socket|a\.sock\.lock is in the way"):
        parsed_endpoint(f"unix:{tmp_path / 'a.sock'}").ensure_free()
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 + 1, "absent"])
def test_a_lock_whose_process_is_no_node_is_removed(tmp_path: Path, pid: object) -> None:
    """In a container the new master may have the very number of the one that was killed."""
    lock = tmp_path / "a.sock.lock"
    lock.symlink_to(str(pid))
    parsed_endpoint(f"unix:{tmp_path / 'a.sock'}").ensure_free()
    assert not lock.is_symlink()


def test_a_public_port_may_be_on_any_interface() -> None:
    """Without TLS, as for health probes."""
    public = parsed_endpoint("tcp:8751:interface=0.0.0.0", is_public=True)
    assert (public.interface, public.credentials) == ("0.0.0.0", None)
    assert parsed_endpoint("tcp:8751", is_public=True).interface == "127.0.0.1"
