"""`txqueue certs`: what it writes, and how it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.wire.tls import OPERATOR, Credentials


def called(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Call it with `--json`; returns the document."""
    assert run(("certs", *words, "--json"), GlobalOptions()) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_certificates_for_a_node_and_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An authority, then one for each; all fit together."""
    folder = str(tmp_path / "tls")
    called(capsys, "init", "--dir", folder)
    node = called(capsys, "issue", "node1", "--dir", folder, "--days", "30")
    called(capsys, "issue", "ann", "--operator", "--dir", folder)
    assert node.keys() == {"certificate", "key", "until"}
    Credentials(tmp_path / "tls", "node1").check()
    Credentials(tmp_path / "tls", "ann", OPERATOR).check()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("issue", "a"), 2, "there is no authority in"),
        (("issue", "a", "--days", "0"), 2, "0 is not in the range"),
        (("issue",), 2, "'NODE'"),
        ((), 2, "Missing command"),
    ],
)
def test_a_wrong_call(
    words: tuple[str, ...],
    status: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, with a remedy, and nothing written."""
    given = ("certs", *words, *(("--dir", str(tmp_path)) if words else ()))
    assert run(given, GlobalOptions()) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not list(tmp_path.iterdir())


def test_the_error_does_not_show_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only where it is."""
    assert run(("certs", "init", "--dir", str(tmp_path)), GlobalOptions()) == 0
    said = capsys.readouterr()
    assert "ca.key" in said.out
    assert "PRIVATE" not in said.out + said.err
