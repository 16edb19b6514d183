"""Certificates: made once, told apart, and refused with a remedy when they do not do."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from txqueue.errors import ConfigurationError
from txqueue.wire import certificate_authority
from txqueue.wire.certificate_authority import issue, make_authority
from txqueue.wire.tls import NODE, OPERATOR, Credentials, named_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority's folder."""
    make_authority(tmp_path / "tls")
    return tmp_path / "tls"


@pytest.mark.parametrize("name", ["a", "host-1.example", "ä b/c", "..", "x" * 64])
@pytest.mark.parametrize("role", [NODE, OPERATOR])
def test_a_certificate_says_whose_it_is(role: str, name: str, folder: Path) -> None:
    """Role and name, whatever characters it has; its files stay in the folder."""
    made = issue(folder, role, name)
    assert named_in(load_pem_x509_certificate(made.certificate.read_bytes())) == (role, name)
    assert made.certificate.parent == made.key.parent == folder
    Credentials(folder, name, role).check()


@pytest.mark.parametrize("name", ["", "ca", "x" * 65, "a\nb"])
def test_a_name_that_does_not_do_is_refused(name: str, folder: Path) -> None:
    """Nothing is written."""
    before = sorted(folder.iterdir())
    with pytest.raises(ConfigurationError, match="is not a name"):
        issue(folder, NODE, name)
    assert sorted(folder.iterdir()) == before


def test_keys_are_for_our_account_only(folder: Path) -> None:
    """From the moment that they exist."""
    made = issue(folder, NODE, "a")
    assert {path.stat().st_mode & 0o777 for path in (made.key, folder / "ca.key")} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_nothing_is_overwritten(folder: Path) -> None:
    """Neither the authority nor a node's certificate or key."""
    issue(folder, NODE, "a")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigurationError, match=r"ca\.pem exists and is not overwritten"):
        make_authority(folder)
    with pytest.raises(ConfigurationError, match=r"a\.pem exists and is not overwritten"):
        issue(folder, OPERATOR, "a")
    (folder / "a.pem").unlink()
    with pytest.raises(ConfigurationError, match=r"a\.key exists and is not overwritten"):
        issue(folder, NODE, "a")
    assert all((folder / path).read_bytes() == before[path] for path in folder.iterdir())


def test_without_an_authority_nothing_is_issued(tmp_path: Path) -> None:
    """The remedy is the command that makes one."""
    with pytest.raises(ConfigurationError, match="txqueue certs init"):
        issue(tmp_path, NODE, "a")


def remove(folder: Path, name: str) -> None:
    """Have a file not be there."""
    (folder / name).unlink()


def spoil(folder: Path, name: str) -> None:
    """Have a file be something else."""
    (folder / name).write_text("-----BEGIN NOTHING-----\n")


def show(folder: Path, name: str) -> None:
    """Have a file be readable by others."""
    (folder / name).chmod(0o640)


def swap(folder: Path, name: str) -> None:
    """Have a file be that of b."""
    (folder / name).write_bytes((folder / f"b{Path(name).suffix}").read_bytes())


def replace(folder: Path, name: str) -> None:
    """Have another authority's file be there."""
    make_authority(folder / "other")
    issue(folder / "other", NODE, "a")
    (folder / name).write_bytes((folder / "other" / name).read_bytes())


@pytest.mark.parametrize(
    ("change", "name", "what"),
    [
        (remove, "ca.pem", "ca.pem cannot be read"),
        (remove, "a.pem", "a.pem cannot be read"),
        (remove, "a.key", "a.key cannot be read"),
        (spoil, "ca.pem", "ca.pem is not a certificate"),
        (spoil, "a.pem", "a.pem is not a certificate"),
        (spoil, "a.key", "a.key is not a private key"),
        (show, "a.key", "can be used by other accounts of this host; run: chmod 600"),
        (swap, "a.pem", "a.pem is not the certificate of node a"),
        (swap, "a.key", "a.key is not the key of"),
        (replace, "ca.pem", "a.pem was not issued by the authority"),
        (replace, "a.pem", "a.pem was not issued by the authority"),
    ],
)
def test_what_does_not_fit_is_found_before_anything_starts(
    change: object, name: str, what: str, folder: Path
) -> None:
    """One line that names the file, and a remedy."""
    assert callable(change)
    for each in "ab":
        issue(folder, NODE, each)
    change(folder, name)
    with pytest.raises(ConfigurationError, match=what) as caught:
        Credentials(folder, "a").check()
    assert caught.value.remedy
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(("days", "what"), [(-1, "expired at"), (3, "is not valid before")])
def test_a_certificate_out_of_its_time(
    days: int, what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended, or not yet begun by this host's clock."""
    monkeypatch.setattr(certificate_authority, "MARGIN", timedelta(days=-2 if days > 0 else 2))
    issue(folder, NODE, "a", days)
    with pytest.raises(ConfigurationError, match=what):
        Credentials(folder, "a").check()


def test_an_operator_s_certificate_is_no_node_s(folder: Path) -> None:
    """Though the name is the same."""
    issue(folder, OPERATOR, "a")
    with pytest.raises(ConfigurationError, match="not the certificate of node a"):
        Credentials(folder, "a").check()
