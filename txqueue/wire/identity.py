"""Identifies an operator by the kernel or a certificate, never by a message."""

from __future__ import annotations

import pwd
import socket
import struct
from typing import Any, cast

from twisted.internet.interfaces import ISystemHandle

from txqueue.errors import AdminRefused
from txqueue.wire.tls import OPERATOR, peer_name

__all__ = ["caller_of"]

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
