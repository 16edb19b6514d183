"""An application whose handlers log in every way."""

import asyncio
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python import log

from txqueue import Retry, Runtime, WorkItem

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()

_log = Logger()
_library = logging.getLogger(__name__)


class CardDeclined(Exception):
    """A failure with a class of the application's."""


@define
class Coroutine(WorkItem):
    """Logs before and after it waits, and fails twice."""

    retry = Retry(attempts=2, first=0.1)

    async def perform(self, job: Any) -> None:
        """Log, wait, log and fail."""
        _log.info("coroutine {id} before", id=job.id)
        await deferLater(reactor, 0.2)
        log.msg(f"coroutine {job.id} after")
        raise CardDeclined("no money")


@define
class Task(WorkItem):
    """Logs in asyncio, what no format accepts too."""

    runtime = Runtime.ASYNCIO

    async def perform(self, job: Any) -> None:
        """Log, wait and log."""
        _library.info("task %s before", job.id)
        await asyncio.sleep(0.2)
        try:
            raise KeyError("lost")
        except KeyError:
            _library.exception("task %s after \N{PILE OF POO} \ud800", job.id)
        print(f"task {job.id} printed", flush=True)
        _library.warning("wrong %d", "number")


@define
class Thread(WorkItem):
    """Logs in a thread."""

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Log."""
        _library.warning("thread %s", job.id)


@define
class Callback(WorkItem):
    """Logs in a callback, which is not run in the context of its job."""

    def perform(self, job: Any) -> Any:
        """Wait and log."""
        return deferLater(reactor, 0.1, _log.info, "callback {id}", id=job.id)


@define
class Chatty(WorkItem):
    """Fills any pipe, in each way in which a handler can write, and notes that it ran."""

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Print, log, and have a program and a library write."""
        for _ in range(100):
            print(f"chatty {job.id} " + "x" * 500)
            _library.warning("chatty %d %s", job.id, "x" * 500)
            _log.info("chatty {id} {text}", id=job.id, text="x" * 500)
        subprocess.run(["seq", "2000"], check=True)
        os.write(2, b"chatty\n" * 500)
        with Path("ran").open("a") as ran:
            ran.write(f"{job.id}\n")
