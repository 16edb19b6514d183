"""Writes the modules of txqueue.sync that are those of txqueue.aio without its coroutines.

    python docs/build_sync.py

Edit txqueue/aio, then run it again. What the two queues do differently is written by hand, in
`environment.py` of each. A test holds the files against what this makes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["MODULES", "TARGET", "generated"]

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "txqueue" / "aio"
TARGET: Final = ROOT / "txqueue" / "sync"
MODULES: Final = ("queue", "transaction")

# Lines about calls that are not awaited.
_DROPPED: Final = re.compile(r"@awaited|import .*\bawaited\b")
# In this order, as they stand in the source.
_TEXTS: Final[Mapping[str, str]] = {
    "programs that run asyncio": "scripts, threads and web servers that block",
    "A transaction of an asyncio program": "A transaction of a program that blocks",
    "for them; made by `connect`, for one event loop": "for them, for all threads of a process",
    "In another one, or after a fork, its methods raise `ConfigurationError`": (
        "Made by `connect`. After a fork, its methods raise `ConfigurationError` in the child"
    ),
    "share one connection, on": "share a thread and a connection, on",
    "an asynchronous context": "a context",
    "An asynchronous context": "A context",
    "an `AsyncTransaction`": "a `BlockingTransaction`",
    "async with": "with",
    "async def": "def",
    "await ": "",
}
_NAMES: Final[Mapping[str, str]] = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncConnection": "Connection",
    "AsyncConnectionPool": "ConnectionPool",
    "AsyncConnections": "BlockingConnections",
    "AsyncCursor": "Cursor",
    "AsyncEndWaiter": "BlockingEndWaiter",
    "AsyncHome": "BlockingHome",
    "AsyncIterator": "Iterator",
    "AsyncTransaction": "BlockingTransaction",
    "Batch": "BlockingBatch",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aanswer": "answer",
    "aio": "sync",
    "asynccontextmanager": "contextmanager",
    **{f"a{name}": name for name in ("batch", "enqueue", "enqueue_many", "signal")},
}
_NAME: Final = re.compile(rf"\b(?:{'|'.join(_NAMES)})\b")
_MODULES: Final[Mapping[str, str]] = {
    "asyncio import Semaphore": "threading import Semaphore",
    "txqueue.store.enqueueing.batch import BlockingBatch": (
        "txqueue.adapters.calls import BlockingBatch"
    ),
}


def generated(module: str) -> str:
    """Return the text of a module of txqueue.sync.

    Raises:
        subprocess.CalledProcessError: When ruff cannot read it.
    """
    source = (SOURCE / f"{module}.py").read_text("utf-8")
    head = f"# Generated from txqueue/aio/{module}.py by docs/build_sync.py: edit that.\n"
    return _formatted(head + _blocking(source), TARGET / f"{module}.py")


def _blocking(source: str) -> str:
    text = "".join(_kept(source))
    for found, instead in _TEXTS.items():
        text = text.replace(found, instead)
    text = _NAME.sub(lambda found: _NAMES[found[0]], text)
    for found, instead in _MODULES.items():
        text = text.replace(found, instead)
    return text


def _kept(source: str) -> Iterator[str]:
    for line in source.splitlines(keepends=True):
        if _DROPPED.search(line) is None:
            yield line


def _formatted(text: str, place: Path) -> str:
    # The shorter lines are put together, imports and nested blocks too.
    for command in (["check", "--quiet", "--fix", "--select", "I,SIM117"], ["format", "--quiet"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", place, "-"],
            input=text,
            capture_output=True,
            check=True,
            text=True,
            cwd=ROOT,
        )
        text = ran.stdout
    return text


if __name__ == "__main__":
    for each in MODULES:
        (TARGET / f"{each}.py").write_text(generated(each), "utf-8")
