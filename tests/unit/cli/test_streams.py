"""What a command prints where the encoding lacks characters, or where streams are closed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txqueue.cli.source import account

TEXT = "5 € é 😀 \udcff"
PRINT = """
import json, sys
from txqueue.cli.output import prepare_streams
prepare_streams()
text = json.loads(sys.argv[1])
print(json.dumps(text, ensure_ascii=False))
print(text)
"""
PROGRAM = Path(sys.executable).with_name("txqueue")


def called(redirection: str, *words: str) -> tuple[int, str]:
    """Call the command in a shell that redirects its output; returns its status and its errors."""
    call = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", str(PROGRAM), *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_characters_that_the_output_lacks_are_escaped(encoding: str) -> None:
    """As in JSON, so that a document stays one."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    call = [sys.executable, "-c", PRINT, json.dumps(TEXT)]
    done = subprocess.run(call, capture_output=True, env=environment, check=True)
    document, text = done.stdout.decode(encoding).splitlines()
    assert json.loads(document) == TEXT
    assert json.loads(f'"{text}"') == TEXT


def test_a_closed_output_is_no_error() -> None:
    """The caller wants none."""
    assert called(">&-", "--help") == (0, "")
    assert called(">&- 2>&-", "fly") == (2, "")


def test_a_full_disk_is_named() -> None:
    """In one line."""
    status, said = called(">/dev/full", "--help")
    assert (status, said) == (1, "error: the output cannot be written: No space left on device\n")


def test_an_account_without_an_entry_in_the_list_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with any number."""

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert account() == f"uid {os.getuid()}"
