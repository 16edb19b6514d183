"""Does what a document says, as a reader would: saves files, types commands, compares."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from attrs import Factory, define

from tests.docs.markdown import Block
from tests.without_tls import FOLDER as WITHOUT_TLS

PATIENCE: Final = 120.0
# twistd ends by the signal that stopped it, once all is in order; `txqueue dev` returns its number.
ENDED_WELL: Final = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
PASTED: Final = re.compile("export TXQUEUE_DSN='([^']+)'")
# On a busy machine a node may be held up for longer than the lease that users have.
LEASE: Final = "60"
FLAGS: Final = ELLIPSIS | NORMALIZE_WHITESPACE


class Typed(NamedTuple):
    """A command, and what the document shows that it prints: nothing if it shows nothing."""

    command: str
    shown: str


@define
class Running:
    """A command that runs on, and the file that its output goes to."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.log.read_text("utf-8", "replace")


@define
class Session:
    """A reader at work in a folder.

    Attributes:
        folder: Where files are saved and commands run.
        environment: Set on top of ours, which lose what could lead txqueue elsewhere.
    """

    folder: Path
    environment: Mapping[str, str]
    _running: dict[str, Running] = Factory(dict)

    def __enter__(self) -> "Session":
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End what still runs; unless something else went wrong, it must end well."""
        said = {name: self._end(name) for name in reversed(list(self._running))}
        bad = {name: text for name, (status, text) in said.items() if status not in ENDED_WELL}
        if kind is None and bad:
            raise AssertionError(f"did not end well: {bad}")
        if kind is not None:
            print(*(f"--- {name}\n{text}" for name, (_, text) in said.items()), sep="\n")

    def follow(self, blocks: Iterable[Block]) -> None:
        """Do what the blocks say, one after the other."""
        for block in blocks:
            if block.action == "file":
                (self.folder / block.name).write_text(block.text)
            elif block.action == "append":
                with (self.folder / block.name).open("a") as file:
                    file.write(f"\n{block.text}")
            elif block.action == "said":
                self._await_words(block.name, _inside(block.text))
            elif block.language == "console" and block.action != "not run":
                self._type(block)

    def start(self, name: str, command: str, shown: str) -> None:
        """Run a command in the background, and wait until it has printed something."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                shell=True,
                executable="/bin/bash",
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        running = self._running[name] = Running(process, log)

        def has_said_it() -> str:
            assert process.poll() is None, f"{command} has ended: {running.said}"
            return running.said

        _await(has_said_it, _inside(shown), command)
        if line := PASTED.search(running.said):
            self.environment = {**self.environment, "TXQUEUE_DSN": line[1]}

    def _await_words(self, name: str, shown: str) -> None:
        _await(lambda: self._running[name].said, shown, name)

    def run(self, command: str, *, fails: bool = False) -> str:
        """Run a command to its end, which must be good or an error, and return what it printed."""
        done = subprocess.run(
            command,
            shell=True,
            executable="/bin/bash",
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert bool(done.returncode) == fails, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _type(self, block: Block) -> None:
        for typed in _typed(block.text):
            if block.action == "background":
                self.start(block.name, f"exec {typed.command}", typed.shown)
            elif (block.action, block.name) == ("run", "until"):
                _await(partial(self.run, typed.command), typed.shown, typed.command)
            else:
                said = self.run(typed.command, fails=block.action == "fails")
                assert not typed.shown or _fits(typed.shown, said), f"{typed.command}: {said}"
        if block.action == "end":
            status = self._running[block.name].process.wait(PATIENCE)
            assert status in ENDED_WELL, self._running[block.name].said

    def _end(self, name: str) -> tuple[int, str]:
        """End it by SIGTERM."""
        process = self._running[name].process
        process.terminate()
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = -1
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return status, self._running[name].said

    def _environment(self) -> dict[str, str]:
        ours = {name: text for name, text in os.environ.items() if not _leads_astray(name)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{ours.get('PATH', '')}"
        plain = {
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "PYTHONPATH": str(WITHOUT_TLS),
            "PYTHONUNBUFFERED": "1",
            "TXQUEUE_LEASE": LEASE,
            "TXQUEUE_STATE_DIR": str(self.folder),
        }
        return {**ours, **plain, "PATH": path, **self.environment}


def _leads_astray(name: str) -> bool:
    return name.startswith(("PG", "TXQUEUE_"))


def _typed(text: str) -> Iterator[Typed]:
    for part in f"\n{text}".split("\n$ ")[1:]:
        command, _, shown = part.partition("\n")
        yield Typed(command, shown)


def _fits(shown: str, said: str) -> bool:
    return OutputChecker().check_output(shown, said, FLAGS)


def _inside(shown: str) -> str:
    return f"...{shown.strip()}..."


def _await(ask: Callable[[], str], shown: str, command: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _fits(shown, said := ask()):
        assert time.monotonic() < deadline, f"{command}: {said}"
        time.sleep(0.2)
