"""The commands `txqueue` and `twistd txqueue` until they end: forks, as their imports take longest.

``python -m tests.cluster.commands ERRORS PROGRAM...`` runs a program whose errors go to a file: the
server that forks gives a process one descriptor for all that it prints.
"""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

from tests.cluster.nodes import PATIENCE, command, environment, start_process


def called(*words: str, **settings: str) -> CompletedProcess[str]:
    """Run `txqueue`, without a database unless it is set.

    Args:
        words: Its command line.
        settings: More of the environment.
    """
    program = [sys.executable, str(Path(sys.executable).with_name("txqueue")), *words]
    return _ended(program, environment(**{"TXQUEUE_DSN": "", **settings}))


def refused(*arguments: str, **settings: str) -> str:
    """Start a node that must not start; return the one line that it says.

    Args:
        arguments: Its options.
        settings: More of the environment.
    """
    ended = _ended(command(*arguments), environment(**settings))
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


def _ended(words: Sequence[str], told: Mapping[str, str]) -> CompletedProcess[str]:
    with TemporaryDirectory() as name:
        printed, errors = Path(name, "printed"), Path(name, "errors")
        apart = [words[0], "-m", __name__, str(errors), *words[1:]]
        with printed.open("wb") as log, open(os.devnull) as reads:
            status = start_process(apart, told, Path(name), reads, log).wait(PATIENCE)
        return CompletedProcess(words, status, printed.read_text(), errors.read_text())


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as file:
        os.dup2(file.fileno(), 2)
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
