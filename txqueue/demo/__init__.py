"""The node, the schema and the jobs of ``txqueue demo``; measurements are made with them too."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER_VARIABLE = "TXQUEUE_BENCH_FOLDER"
"""The environment variable that names the folder for files to the processes of a node."""


def twistd() -> list[str]:
    """Return the first words of a node's command line, which run `twistd` with this Python."""
    program = Path(sys.executable).with_name("twistd")
    found = [str(program)] if program.exists() else ["-m", "twisted.scripts.twistd"]
    return [sys.executable, *found, "-n", "--pidfile=", "txqueue"]
