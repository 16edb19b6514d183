"""Without the packages of TLS, which a queue on one host does not need."""

import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

import pytest

from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.errors import ConfigurationError, KeyUnavailable
from txqueue.store.enqueueing.encryption import decrypted
from txqueue.wire.tls import Credentials

# What a node and its workers import, with those packages out of reach.
NODE: Final = """
import sys
for name in ("OpenSSL", "cryptography", "service_identity"):
    sys.modules[name] = None
from twisted.internet import reactor
import txqueue.tap, txqueue.node.node, txqueue.worker.entry
"""


@pytest.mark.parametrize("name", ["OpenSSL", "cryptography"])
def test_certificates_need_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes at the start, and says what to install."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=rf"{name}.*pip install 'txqueue\[tls\]'"):
        Credentials(tmp_path, "node1").check()


def test_no_certificate_is_made_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says so in a line."""
    monkeypatch.setitem(sys.modules, "OpenSSL", None)
    assert run(("certs", "init", "--dir", str(tmp_path / "tls")), GlobalOptions()) == 2
    assert "pip install 'txqueue[tls]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_encrypted_values_need_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is read, not only one that is written."""
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    monkeypatch.setenv("TXQUEUE_PAYLOAD_KEY", "a key of its own, not used before")
    token = urlsafe_b64encode(b"\x80" + bytes(72)).decode()
    with pytest.raises(KeyUnavailable, match=r"pip install 'txqueue\[crypto\]'"):
        decrypted("mail", "payload", {"encrypted": token})


def test_a_node_is_imported_without_them() -> None:
    """Each process loads 12 MB less."""
    subprocess.run([sys.executable, "-c", NODE], check=True, timeout=60)
