"""Makes a certificate authority, and issues the certificates of nodes and operators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from txqueue.errors import ConfigurationError
from txqueue.wire.tls import identity_uri, stem

AUTHORITY_DAYS, DAYS = 3650, 825
# Certificates are valid from the past, as hosts' clocks differ.
MARGIN = timedelta(minutes=5)
LONGEST_NAME = 64
_CERTIFICATE, _KEY = 0o644, 0o600


@frozen
class Made:
    """The files of a certificate that was made.

    Attributes:
        certificate: The file with the certificate.
        key: The file with its private key.
        until: When the certificate expires.
    """

    certificate: Path
    key: Path
    until: datetime


def make_authority(folder: Path, days: int = AUTHORITY_DAYS) -> Made:
    """Make an authority: ``ca.pem`` for every host, and ``ca.key``, which must stay private.

    Raises:
        ConfigurationError: When an authority exists there, or the folder cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("txqueue authority")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _written(folder, "ca", builder.sign(key, hashes.SHA256()), key)


def issue(folder: Path, role: str, name: str, days: int = DAYS) -> Made:
    """Issue a certificate to a node or an operator: ``NAME.pem`` and ``NAME.key``.

    Args:
        folder: The folder of the authority, in which the files are written.
        role: ``node`` or ``operator``.
        name: The node's or operator's name.
        days: How many days the certificate is valid.

    Raises:
        ConfigurationError: When there is no authority, the name is not valid, or the file exists.
    """
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or stem(name) == "ca":
        raise ConfigurationError(
            f"{name!r} is not a name for a certificate",
            f"give 1 to {LONGEST_NAME} printable characters, and not 'ca'",
        )
    authority, authority_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(_name(name), authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity_uri(role, name))]),
            critical=False,
        )
    )
    return _written(folder, stem(name), builder.sign(authority_key, hashes.SHA256()), key)


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"there is no authority in {folder}: {error}", "run: txqueue certs init --dir DIR"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(
            f"{folder / 'ca.key'} is not a key that txqueue made", "run: txqueue certs init"
        )
    return certificate, key


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - MARGIN)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _written(
    folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Made:
    pair = Made(folder / f"{name}.pem", folder / f"{name}.key", certificate.not_valid_after_utc)
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _ensure_new((pair.certificate, pair.key))
        _write(pair.key, key_text, _KEY)
        _write(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), _CERTIFICATE)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be written: {error.strerror}", "give a --dir that can be written"
        ) from None
    return pair


def _ensure_new(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            raise ConfigurationError(
                f"{path} exists and is not overwritten",
                "move it away to make another; hosts that have the old one keep it until then",
            )


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a new file that has the given mode from its creation on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
