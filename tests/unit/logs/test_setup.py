"""The choice of the log's format, and what twistd is given for it."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import Logger, formatEvent, globalLogPublisher
from twisted.python.reflect import namedAny

from txqueue.errors import ConfigurationError
from txqueue.logs.lines import FORMAT_VARIABLE as VARIABLE
from txqueue.logs.lines import NODE_VARIABLE
from txqueue.logs.setup import choose_log, let_information_pass
from txqueue.logs.streams import OUTPUT, RELAY
from txqueue.system.settings import Settings

FOREGROUND = {"nodaemon": True, "logfile": None}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the environment and the standard library's loggers as they are."""
    # What the code sets is undone only if the variable is known before.
    monkeypatch.setenv(VARIABLE, "text")
    monkeypatch.setenv(NODE_VARIABLE, "-")
    for name in ("sink", "program"):
        monkeypatch.setattr(OUTPUT, name, getattr(OUTPUT, name))
    monkeypatch.setattr(RELAY, "write", None)
    root = logging.getLogger()
    former, level = list(root.handlers), root.level
    yield
    root.handlers[:] = former
    root.setLevel(level)


def choose(flag: str | None, folder: Path, program: Any = None, **environ: str) -> None:
    """Choose a format by a flag, or as the environment and the file in a folder say."""
    choose_log(Settings({"log_format": flag}, environ, folder), program)


def test_a_log_is_text_unless_something_else_is_chosen(tmp_path: Path) -> None:
    """Its lines and those of the workers name the node."""
    choose(None, tmp_path, dict(FOREGROUND), TXQUEUE_NAME="web-1")
    assert (os.environ[VARIABLE], os.environ[NODE_VARIABLE]) == ("text", "web-1")
    choose("json", tmp_path)
    assert os.environ[VARIABLE] == "json"


def test_another_observer_gets_the_lines_of_workers_as_events(
    tmp_path: Path,
) -> None:
    """In text, the observer of --logger writes what it likes."""
    program: dict[str, Any] = {"nodaemon": True, "logger": "mine.observer"}
    choose(None, tmp_path, program)
    assert program["logger"] == "mine.observer"
    events: list[Any] = []
    observe: Any = events.append
    globalLogPublisher.addObserver(observe)
    assert RELAY.write is not None
    RELAY.write("one\ntwo\n")
    globalLogPublisher.removeObserver(observe)
    assert [formatEvent(event) for event in events] == ["one", "two"]


@pytest.mark.parametrize(
    ("flag", "program", "said"),
    [
        ("xml", {}, "--log-format is 'xml', not a format; give text or json"),
        ("json", {"syslog": True}, "--syslog of twistd"),
        ("json", {"logger": "mine.observer"}, "--logger of twistd"),
    ],
)
def test_a_choice_that_cannot_be_followed_is_refused(
    flag: str, program: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """With a remedy."""
    with pytest.raises(ConfigurationError, match=said):
        choose(flag, tmp_path, program)


def test_twistd_gets_an_observer_for_its_file(tmp_path: Path) -> None:
    """Records of the standard library go there too."""
    file = tmp_path / "node.log"
    program: dict[str, Any] = {"nodaemon": True, "logfile": str(file)}
    choose("json", tmp_path, program)
    Logger("shop", observer=namedAny(program["logger"])()).info("by Twisted")
    logging.getLogger("shop").warning("by the library")
    said = [json.loads(line)["message"] for line in file.read_text().splitlines()]
    assert said == ["by Twisted", "by the library"]


def test_in_the_foreground_the_log_goes_to_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text does; twist names its stream itself."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    program: dict[str, Any] = dict(FOREGROUND)
    choose("json", tmp_path, program)
    Logger("shop", observer=namedAny(program["logger"])()).info("of twistd")
    Logger("shop", observer=program["fileLogObserverFactory"](stream)).info("of twist")
    said = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert said == ["of twistd", "of twist"]


def test_information_passes_unless_the_application_has_set_up_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A level or a handler of its own stays in force; those that do nothing do not count."""
    # Other tests have set up Django, which adds handlers.
    monkeypatch.setattr(logging.Logger.manager, "loggerDict", {})
    root, shop = logging.getLogger(), logging.getLogger("shop.set_up")
    for handlers, level, after in (
        ([], logging.WARNING, logging.INFO),
        ([logging.NullHandler()], logging.WARNING, logging.INFO),
        ([logging.StreamHandler()], logging.WARNING, logging.WARNING),
        ([], logging.ERROR, logging.ERROR),
    ):
        root.handlers[:], shop.handlers[:] = [], handlers
        root.setLevel(level)
        let_information_pass()
        assert root.level == after
    shop.handlers[:] = []


def test_a_worker_prints_any_text() -> None:
    """What is not Unicode becomes a question mark; the text names its process's node."""
    printing = """
import sys
from txqueue.logs.setup import begin_worker_log
begin_worker_log()
print("x\\ud800y")
print("x\\ud800y", file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", printing],
        capture_output=True,
        check=True,
        env={**os.environ, NODE_VARIABLE: "web-1"},
    )
    assert done.stderr.count(b"info web-1 std") == done.stderr.count(b": x?y\n") == 2
