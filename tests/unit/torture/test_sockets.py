"""The unix sockets that DSNs name."""

from pathlib import Path

from txqueue_torture.sockets import redirected, socket_of


def test_a_unix_socket_is_found_and_replaced() -> None:
    """A proxy stands where the server stood; all else of the DSN is as it was."""
    dsn = "postgresql://me@/shop?host=/run/pg&port=6000"
    assert socket_of(dsn) == Path("/run/pg/.s.PGSQL.6000")
    assert socket_of("host=db") is None
    other = redirected(dsn, Path("/run/proxy/.s.PGSQL.7000"))
    assert socket_of(other) == Path("/run/proxy/.s.PGSQL.7000")
    assert "me" in other
    assert "shop" in other
