"""Mutual TLS: both ends show a certificate of one authority; an operator is known by the kernel or
a certificate, never by a message.
"""

from __future__ import annotations

import pwd
import socket
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from attrs import frozen
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
    ISystemHandle,
)
from zope.interface import classImplements

from txqueue.errors import AdminRefused, ConfigurationError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from twisted.internet.protocol import Factory

    from txqueue.system.settings import Settings


NODE, OPERATOR = "node", "operator"
_SCHEME = "txqueue://"
_OTHERS = 0o077


def require_packages() -> None:
    """Check that what TLS needs is installed; a queue on one host does without it.

    Raises:
        ConfigurationError: When it is not; with the remedy.
    """
    try:
        import cryptography  # noqa: F401
        import OpenSSL  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"TLS needs the package {error.name}, which is not installed",
            "pip install 'txqueue[tls]'",
        ) from None


def identity_uri(role: str, name: str) -> str:
    """Return the URI by which a certificate names its holder."""
    return f"{_SCHEME}{role}/{quote(name, safe='')}"


def stem(name: str) -> str:
    """Return the file name, without extension, of a holder's certificate and key."""
    return quote(name, safe=" ")


def named_in(certificate: Certificate) -> tuple[str, str] | None:
    """Return the holder's role and name in a certificate; None if it has none of txqueue's."""
    from cryptography.x509 import (
        ExtensionNotFound,
        SubjectAlternativeName,
        UniformResourceIdentifier,
    )

    try:
        extension = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except (ExtensionNotFound, ValueError):
        return None
    for uri in extension.value.get_values_for_type(UniformResourceIdentifier):
        role, _, name = uri.removeprefix(_SCHEME).partition("/")
        if uri.startswith(_SCHEME) and role in (NODE, OPERATOR) and name:
            return role, unquote(name)
    return None


def peer_name(transport: object) -> tuple[str, str] | None:
    """Return the role and name in the peer's verified certificate.

    Args:
        transport: The transport of a connection after its handshake.

    Returns:
        The role and name; None if the connection is not TLS, or the certificate has neither.
    """
    ask = getattr(transport, "getPeerCertificate", None)
    certificate = None if ask is None else ask()
    return None if certificate is None else named_in(certificate.to_cryptography())


@frozen
class Credentials:
    """A process's own certificate, and the authority that it trusts.

    Attributes:
        folder: The folder with ``ca.pem``, ``NAME.pem`` and ``NAME.key``.
        name: The node's or operator's name.
        role: ``node`` or ``operator``.
    """

    folder: Path
    name: str
    role: str = NODE

    @property
    def authority_path(self) -> Path:
        """The path of the authority's certificate."""
        return self.folder / "ca.pem"

    @property
    def certificate_path(self) -> Path:
        """The path of this process's certificate."""
        return self.folder / f"{stem(self.name)}.pem"

    @property
    def key_path(self) -> Path:
        """The path of this process's private key."""
        return self.folder / f"{stem(self.name)}.key"

    def expires_at(self) -> datetime:
        """Return when the certificate expires.

        Raises:
            ConfigurationError: When the file cannot be read.
        """
        return _certificate(self.certificate_path).not_valid_after_utc

    def check(self) -> None:
        """Check, when a process starts, that all files exist and match.

        Raises:
            ConfigurationError: When a file is missing or does not match, or a package is not
                installed; with the remedy.
        """
        require_packages()
        authority, certificate = (
            _certificate(self.authority_path),
            _certificate(self.certificate_path),
        )
        _ensure_current(self.authority_path, authority)
        _ensure_current(self.certificate_path, certificate)
        _ensure_issued(self.certificate_path, certificate, authority)
        if named_in(certificate) != (self.role, self.name):
            raise ConfigurationError(
                f"{self.certificate_path} is not the certificate of {self.role} {self.name}",
                f"{_issue(self.name)}, or give the --name that it was issued for",
            )
        _ensure_private(self.key_path)
        if _public_key(self.key_path) != certificate.public_key():
            raise ConfigurationError(
                f"{self.key_path} is not the key of {self.certificate_path}",
                f"copy both from where they were issued, or {_issue(self.name)}",
            )

    def server(self, factory: Factory) -> Factory:
        """Wrap a factory so that its connections are TLS and require a client certificate."""
        return self._wrapped(factory, is_client=False)

    def client(self, factory: Factory) -> Factory:
        """Wrap a factory so that its outgoing connections are TLS."""
        return self._wrapped(factory, is_client=True)

    def _wrapped(self, factory: Factory, *, is_client: bool) -> Factory:
        from twisted.protocols.tls import TLSMemoryBIOFactory

        class Wrapping(TLSMemoryBIOFactory):
            """A TLS wrapper that passes on refusals of the wrapped factory, unlike Twisted's."""

            def buildProtocol(self, addr: Any) -> Any:
                inner: Any = factory.buildProtocol(addr)
                return None if inner is None else self.protocol(self, inner)

        untyped_factory: Any = factory
        connections: Any = _Connections(self._context())
        return cast("Factory", Wrapping(connections, is_client, untyped_factory))

    def _context(self) -> Any:
        """Return a context that trusts only this authority; the caller compares names."""
        from OpenSSL import SSL

        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_options(SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION | SSL.OP_NO_TICKET)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.use_certificate_file(str(self.certificate_path))
        context.use_privatekey_file(str(self.key_path))
        context.load_verify_locations(str(self.authority_path))
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
        return context


def credentials_of(settings: Settings, name: str) -> Credentials | None:
    """Return the certificate of a node, and its key; None without TLS.

    Raises:
        ConfigurationError: When its files cannot be used.
    """
    folder = settings.get("tls_dir")
    if folder is None:
        return None
    credentials = Credentials(Path(folder), name)
    credentials.check()
    return credentials


class _Connections:
    """Makes the TLS part of each connection, by methods that Twisted calls."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def clientConnectionForTLS(self, protocol: Any) -> Any:  # noqa: ARG002 - Twisted's
        """Return the TLS part of a connection."""
        from OpenSSL import SSL

        return SSL.Connection(self._context, None)

    serverConnectionForTLS = clientConnectionForTLS


classImplements(_Connections, IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator)


def _issue(name: str) -> str:
    return f"issue one: txqueue certs issue {name} --dir DIR"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}",
            "--tls-dir holds ca.pem, NAME.pem and NAME.key of the node;"
            " txqueue certs init and txqueue certs issue make them",
        ) from None


def _certificate(path: Path) -> Certificate:
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return load_pem_x509_certificate(_read(path))
    except ValueError:
        raise ConfigurationError(
            f"{path} is not a certificate in PEM", "copy it again from where it was issued"
        ) from None


def _public_key(path: Path) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(_read(path), password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError(
            f"{path} is not a private key in PEM without a password",
            "copy it again from where it was issued",
        ) from None


def _ensure_current(path: Path, certificate: Certificate) -> None:
    now = datetime.now(UTC)
    if certificate.not_valid_after_utc < now:
        raise ConfigurationError(
            f"{path} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
            "issue another: txqueue certs issue",
        )
    if certificate.not_valid_before_utc > now:
        raise ConfigurationError(
            f"{path} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
            "set the host's clock",
        )


def _ensure_issued(path: Path, certificate: Certificate, authority: Certificate) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise ConfigurationError(
            f"{path} was not issued by the authority of {path.with_name('ca.pem')}",
            "copy both from the same authority's folder",
        ) from None


def _ensure_private(path: Path) -> None:
    _read(path)
    if path.stat().st_mode & _OTHERS:
        raise ConfigurationError(
            f"{path} can be used by other accounts of this host", f"run: chmod 600 {path}"
        )


_CREDENTIALS = struct.Struct("3i")


def caller_of(transport: object) -> str:
    """Return the name of the operator of an admin connection.

    Args:
        transport: The transport of a connection that has received data.

    Returns:
        The name of the operator's account over a unix socket, or of the certificate over TLS.

    Raises:
        AdminRefused: When the certificate is not an operator's, or there is none.
    """
    if hasattr(transport, "getPeerCertificate"):
        return _certified(transport)
    handle: Any = cast("ISystemHandle", transport).getHandle()
    if handle.family == socket.AF_UNIX:
        return _account(handle)
    raise AdminRefused(
        "any account of this host can reach a plain TCP port, so it only shows the node's state",
        "use the node's unix socket, or start it with --tls-dir and use an operator's certificate",
    )


def _certified(transport: object) -> str:
    certified = peer_name(transport)
    if certified is None or certified[0] != OPERATOR:
        raise AdminRefused(
            "the certificate is not an operator's",
            "issue one: txqueue certs issue NAME --operator",
        )
    return certified[1]


def _account(handle: socket.socket) -> str:
    packed = handle.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(packed)
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
