"""What the queues without Twisted share, blocking or not: `txqueue.aio` and `txqueue.sync`."""

from txqueue.errors import ConfigurationError

__all__ = ["explained"]


class PsycopgMissing(ConfigurationError, ImportError):
    """Psycopg 3 is not there, or has no libpq; an `ImportError`, as programs may expect one."""


def explained(error: ImportError) -> ImportError:
    """Return the error with the remedy if psycopg cannot be imported; else return it unchanged."""
    if error.name == "psycopg":
        return PsycopgMissing(
            "txqueue.sync and txqueue.aio need psycopg 3, which is not installed",
            "run: pip install 'txqueue[psycopg]' 'psycopg[binary]'",
        )
    if "no pq wrapper" in str(error):
        return PsycopgMissing(
            "psycopg finds no libpq on this host", "run: pip install 'psycopg[binary]'"
        )
    return error
