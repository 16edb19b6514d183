"""Keeps the secrets of a DSN out of messages, whatever place libpq has read them into.

An unescaped ``/`` or ``@`` in the password of a URI makes parts of it the host, the port or the
database, which the errors of libpq and of the server name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final
from urllib.parse import unquote

from txqueue.errors import TxqueueError

__all__ = ["redacted", "redacting"]

_SECRETS: Final = "password|sslpassword|oauth_client_secret|scram_client_key|scram_server_key"
_SCHEME: Final = re.compile(r"postgres(?:ql)?://")
_OF_A_QUERY: Final = re.compile(rf"[?&](?:{_SECRETS})=([^&]*)")
_OF_A_STRING: Final = re.compile(
    rf"(?:{_SECRETS})\s*=\s*('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)", re.DOTALL
)
# A part of a message between delimiters of a DSN; a sentence may end after it.
_PART: Final = re.compile(r"""[^\s/?#@:,&=\\"'()]+""")
_ENDS: Final = ".;"
# A server cuts long names off, so that only the beginning of a secret is in its message.
_LONG: Final = 6


def redacted(message: str, dsn: str) -> str:
    """Return a message with ``...`` in place of each part of the DSN's secrets.

    What the DSN also has outside of its secrets stays, such as a user whose name is the password.

    Args:
        message: The message.
        dsn: A libpq URI or keyword string, valid or not.
    """
    secrets, clear = _divided(dsn)
    parts = _parts(secrets) - _parts(clear)

    def replace(match: re.Match[str]) -> str:
        part = match[0].rstrip(_ENDS)
        is_secret = part in parts or match[0] in parts
        is_beginning = len(part) >= _LONG and any(secret.startswith(part) for secret in parts)
        return "..." if is_secret or is_beginning else match[0]

    return _PART.sub(replace, message) if parts else message


@contextmanager
def redacting(dsn: str) -> Iterator[None]:
    """Redact the errors of txqueue inside the block."""
    try:
        yield
    except TxqueueError as error:
        error.what, error.remedy = redacted(error.what, dsn), redacted(error.remedy, dsn)
        error.args = (error.what, error.remedy)
        raise


def _divided(dsn: str) -> tuple[list[str], list[str]]:
    """Return the texts of a DSN that are secret, and those that are not."""
    scheme = _SCHEME.match(dsn)
    if scheme is None:
        return _OF_A_STRING.findall(dsn), [_OF_A_STRING.sub("", dsn)]
    address, query_secrets = dsn[scheme.end() :], _OF_A_QUERY.findall(dsn)
    # Whatever stands between the first colon and the last @ may belong to the password.
    user, at, where = address.rpartition("@")
    name, _, password = user.partition(":")
    secrets = [password, *query_secrets] if at else [*_wrong_ports(address), *query_secrets]
    return secrets, [name, _OF_A_QUERY.sub("", where) if at else ""]


def _wrong_ports(address: str) -> list[str]:
    """Return what stands where ports should be, in a URI without ``@``, but is no number."""
    hosts = re.split(r"[/?]", address, maxsplit=1)[0].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    return [port for port in ports if not port.isdigit()]


def _parts(texts: Iterable[str]) -> set[str]:
    """Return the parts of texts as they are, unescaped, and decoded from percent signs."""
    forms = [(text, unquote(text), re.sub(r"\\(.)", r"\1", text)) for text in texts]
    return {part for form in chain.from_iterable(forms) for part in _PART.findall(form)}
