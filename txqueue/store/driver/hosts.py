"""The hosts of a DSN: tried in turn, with secrets kept out of messages; looked up outside of the
reactor's thread.

An unescaped ``/`` or ``@`` in the password of a URI makes parts of it the host, the port or the
database, which the errors of libpq and of the server name.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from attrs import evolve, field, frozen
from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn, parse_dsn

from txqueue.errors import DatabaseUnavailable, TxqueueError
from txqueue.store.driver.session_bounds import (
    CONNECTS_WITHIN,
    CONNECTS_WITHIN_OF_SEVERAL,
    NOTICING,
)
from txqueue.store.driver.shared_errors import invalid_dsn

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from txqueue.store.driver.raw_connection import IStoreReactor


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


_LOCATING = (
    ("service", "PGSERVICE"),
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
)
# libpq would need all hosts at once to prefer a standby: it tries each as one, then each as any.
_PREFERRING: Final = {
    "prefer-standby": [{"target_session_attrs": "standby"}, {"target_session_attrs": "any"}]
}


@frozen
class ConnectAttempt:
    """One attempt to connect: the driver's parameters and the time limit in seconds.

    Attributes:
        is_told: Whether the time limit is the DSN's own.
    """

    parameters: dict[str, Any] = field(repr=False)
    patience: float
    is_told: bool = False

    def at_each(self, addresses: Sequence[str]) -> list[ConnectAttempt]:
        """Return the attempts to connect to each address of the host, each with its own time.

        The host's name stays in the parameters, because TLS compares it with the certificate.
        """
        soon = self.patience if self.is_told else min(self.patience, CONNECTS_WITHIN_OF_SEVERAL)
        patience = [soon] * (len(addresses) - 1) + [self.patience]
        return [
            evolve(self, parameters={**self.parameters, "hostaddr": address}, patience=seconds)
            for address, seconds in zip(addresses, patience, strict=True)
        ]


def attempts(dsn: str, environ: Mapping[str, str] = os.environ) -> list[ConnectAttempt]:
    """Return the attempts to connect, one per host, to be made in order until one succeeds.

    libpq itself would try the next host only after an answer or refusal of the one before, as it
    ignores ``connect_timeout`` for asynchronous connections.

    Args:
        dsn: A libpq URI or keyword string, perhaps with several hosts.
        environ: The environment, for libpq's variables.

    Raises:
        ConfigurationError: When the DSN is not valid.
    """
    parameters = _parsed(dsn)
    hosts = _hosts(parameters, environ)
    own_patience = _told_patience(dsn, environ)
    patience = own_patience or (CONNECTS_WITHIN_OF_SEVERAL if len(hosts) > 1 else CONNECTS_WITHIN)
    session_attrs = parameters.get("target_session_attrs") or environ.get(
        "PGTARGETSESSIONATTRS", ""
    )
    return [
        ConnectAttempt(
            {**NOTICING, **parameters, **host, **manner}, patience, own_patience is not None
        )
        for manner in _PREFERRING.get(session_attrs, [{}])
        for host in hosts
    ]


def _parsed(dsn: str) -> dict[str, Any]:
    if "\0" in str(dsn):
        raise invalid_dsn(dsn)
    try:
        parameters: dict[str, Any] = parse_dsn(dsn)
    except (ProgrammingError, TypeError) as error:
        raise invalid_dsn(dsn, str(error)) from None
    return parameters


def database_name(dsn: str) -> str:
    """Return the name of the database in a DSN, without secrets; empty if it names none."""
    return redacted(str(_parsed(dsn).get("dbname", "")), dsn)


def location(dsn: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the parameters that say where a database is, of a DSN or libpq's variables."""
    parameters = _parsed(dsn)
    located = {name: parameters.get(name) or environ.get(variable) for name, variable in _LOCATING}
    return str(make_dsn(**{name: value for name, value in located.items() if value}))


def dsn_of_parameters(parameters: Mapping[str, Any]) -> str:
    """Return the DSN of a driver's parameters, without those that libpq does not have."""
    return str(
        make_dsn(**{name: each for name, each in parameters.items() if _is_known(name, each)})
    )


def _is_known(name: str, value: Any) -> bool:
    if type(value) not in (str, int):
        return False
    try:
        make_dsn(**{name: value})
    except ProgrammingError:
        return False
    return True


def _hosts(parameters: Mapping[str, str], environ: Mapping[str, str]) -> list[dict[str, str]]:
    """Return for each host of a list the parameters that name it alone, in the order of the list.

    The result is ``[{}]`` for a single host, or for a list that is not valid.
    """
    lists = {
        key: value.split(",")
        for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("port", "PGPORT"))
        if (value := parameters.get(key) or environ.get(variable))
    }
    many = max((len(lists[key]) for key in ("host", "hostaddr") if key in lists), default=1)
    if many == 1 or any(len(values) not in (1, many) for values in lists.values()):
        # Of a wrong list, libpq reports the error.
        return [{}]
    return [
        {key: values[index % len(values)] for key, values in lists.items()} for index in range(many)
    ]


def _told_patience(dsn: str, environ: Mapping[str, str]) -> float | None:
    """Return the time limit of a DSN, or of the environment; None without one."""
    try:
        told = float(_parsed(dsn).get("connect_timeout") or environ.get("PGCONNECT_TIMEOUT") or 0)
    except ValueError:
        return None
    return told if told > 0 else None


def name_in(parameters: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the host name that libpq would look up; None if there is none, or several.

    Args:
        parameters: The driver's connection parameters.
        environ: The environment, for libpq's variables.
    """
    if parameters.get("hostaddr") or environ.get("PGHOSTADDR"):
        return None
    name = parameters.get("host") or environ.get("PGHOST", "")
    return None if name[:1] in ("", "/", "@") or "," in name or _is_address(name) else name


async def resolved(reactor: IStoreReactor, attempt: ConnectAttempt) -> list[ConnectAttempt]:
    """Return an attempt for each address of the host, in the resolver's order.

    Args:
        reactor: Its threads call the resolver.
        attempt: The driver's parameters and the time limit, which also applies to the resolver.

    Raises:
        DatabaseUnavailable: When there is no such host, or the resolver does not answer.
    """
    # Here, as commands look names up without Twisted.
    from twisted.internet.error import TimeoutError
    from twisted.internet.threads import deferToThreadPool

    name = name_in(attempt.parameters)
    if name is None:
        return [attempt]
    asking: Deferred[list[str]] = deferToThreadPool(
        reactor, reactor.getThreadPool(), _addresses, name
    )
    try:
        return attempt.at_each(await asking.addTimeout(attempt.patience, reactor))
    except TimeoutError:
        raise _unknown(name) from None


def looked_up(attempt: ConnectAttempt) -> list[ConnectAttempt]:
    """Return an attempt for each address of the host, without a reactor.

    Raises:
        DatabaseUnavailable: When there is no such host.
    """
    name = name_in(attempt.parameters)
    return [attempt] if name is None else attempt.at_each(_addresses(name))


def _addresses(name: str) -> list[str]:
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _unknown(name) from None
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


def _unknown(name: str) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"no address was found for the host {name}", "check the DSN and the name server"
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
