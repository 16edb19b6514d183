"""``txqueue dev`` names the server that it uses."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run


def test_a_server_that_a_setting_names_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With how to get the folder's own: the terminal may have the setting of another day."""
    monkeypatch.setattr("txqueue.cli.dev._run", lambda *_: None)
    monkeypatch.setattr("txqueue.cli.dev._running", lambda *_: nullcontext())
    monkeypatch.setattr("txqueue.cli.dev.signal.signal", lambda *_: None)
    monkeypatch.setenv("TXQUEUE_DSN", "host=/nowhere")
    monkeypatch.chdir(tmp_path)
    assert run(["dev", "--app", "shop"], GlobalOptions()) == 0
    said = "server:    set by TXQUEUE_DSN; unset it to start this folder's own"
    assert capsys.readouterr().err.splitlines()[0] == said
