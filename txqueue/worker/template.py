"""The template of a node's workers: ``python -m txqueue.worker.template``, started by a master.

The template imports the application once, and forks a worker for each request of the master. A
worker is then ready in some tens of milliseconds, and shares the memory of what was imported. The
template has no reactor and no threads, as a fork copies neither of them.

Requests come over a socket, each a line of JSON: ``{"app": [...], "dsn": "..."}`` first, then
``{"start": KEY}`` with the two descriptors of a worker, and ``{"kill": KEY}``. Reports go through a
pipe, also as lines: ``{"ready": true}``, ``{"obstacle": WHY}`` or ``{"cannot_import": WHY}`` first,
then ``{"started": KEY, "pid": PID}`` and ``{"ended": KEY, "signal": NUMBER, "status": NUMBER}`` for
each worker, or ``{"failed": KEY, "why": WHY}`` for one that was not forked. ``{"killed": KEY}``
answers each request to kill one, even if it had ended before: the template is not stuck.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final, NoReturn

from txqueue.logs.setup import end_worker_log
from txqueue.policy.worker_start import ImportTraces, obstacle_to_fork
from txqueue.system.descriptors import is_safe_to_share, open_descriptors
from txqueue.system.processes import (
    children_of,
    die_with_parent,
    freeze_loaded_objects,
    is_alive,
    receive_child_signal,
    thread_count,
)
from txqueue.wire.commands import CannotImport
from txqueue.worker.entry import PIPE_FD, SHARED_FD, begin_process, run_worker
from txqueue.worker.master_link import import_application

# The same numbers as a worker's descriptors, so that no file that the application opens has them.
REQUESTS_FD: Final = PIPE_FD
REPORTS_FD: Final = SHARED_FD
_READ_SIZE: Final = 65_536
# Seconds in which threads that the import has joined must have ended.
SETTLING: Final = 0.5


def main() -> None:
    """Import the application, report whether it allows forking, and fork workers."""
    die_with_parent()
    begin_process()
    for descriptor in (REQUESTS_FD, REPORTS_FD):
        os.set_inheritable(descriptor, False)
    # Without its master the template just ends, and its workers with it.
    with (
        closing(Requests(socket.socket(fileno=REQUESTS_FD))) as requests,
        suppress(BrokenPipeError),
    ):
        settings = requests.read_first()
        outcome = {} if settings is None else _import(settings)
        _report(**outcome)
        if "ready" in outcome:
            Template(requests).serve()
            os._exit(0)
        # The master may not read what is reported by a process that has ended.
        while requests.read() is not None:
            pass


def _import(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Import the application, and return what to report about it."""
    before = open_descriptors()
    try:
        import_application(settings["app"], settings["dsn"])
    except CannotImport as error:
        return {"cannot_import": str(error)}
    finally:
        # What is not written yet would be written again by each worker.
        end_worker_log()
    if (obstacle := obstacle_to_fork(_traces_since(before))) is not None:
        return {"obstacle": obstacle}
    freeze_loaded_objects()
    return {"ready": True}


def _traces_since(before: Mapping[int, str]) -> ImportTraces:
    """Return what an import has left behind; `before` are the descriptors that were open before."""
    opened = dict(open_descriptors().items() - before.items())
    foreign_threads = _foreign_threads()
    threads = threading.enumerate()
    return ImportTraces(
        threads=[thread.name for thread in threads if thread is not threading.main_thread()],
        foreign_threads=foreign_threads,
        has_reactor="twisted.internet.reactor" in sys.modules,
        children=[pid for pid in children_of(os.getpid()) if is_alive(pid)],
        opened=[target for number, target in opened.items() if not is_safe_to_share(number)],
    )


def _foreign_threads() -> int:
    """Return the number of threads that are not Python's.

    For Python a thread has ended, and was joined, some moments before it has for the kernel.
    """
    until = time.monotonic() + SETTLING
    while True:
        count = max(0, thread_count() - threading.active_count())
        if not count or time.monotonic() > until:
            return count
        time.sleep(0.005)


def _report(**report: Any) -> None:
    os.write(REPORTS_FD, json.dumps(report).encode() + b"\n")


class Requests:
    """The master's requests, and the descriptors that come with them.

    Args:
        connection: The socket over which they come.

    Attributes:
        descriptors: The descriptors of requests that were read but not carried out, oldest first.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self.descriptors: deque[int] = deque()

    def read(self) -> list[dict[str, Any]] | None:
        """Wait for bytes; return the requests that they complete, or None at the end."""
        data, descriptors, _, _ = socket.recv_fds(self._connection, _READ_SIZE, 2)
        if not data:
            return None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self.descriptors += descriptors
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def read_first(self) -> dict[str, Any] | None:
        """Wait for the first request, and return it; None if the master has closed the socket."""
        while (requests := self.read()) is not None:
            if requests:
                return requests[0]
        return None

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()

    def forget(self) -> None:
        """Close what a forked worker must not keep; the socket's number is already reused."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._connection.detach()


class Template:
    """Forks workers as the master requests, and reports their starts and ends.

    Args:
        requests: The master's requests.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._pid = os.getpid()
        # Process ids by key; a process that was not waited for keeps its number.
        self._workers: dict[int, int] = {}
        # An import may have set anything else for the signal.
        self._endings = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        receive_child_signal(lambda: None)
        signal.set_wakeup_fd(self._endings[1], warn_on_full_buffer=False)
        self._poll = select.poll()
        for descriptor in (REQUESTS_FD, self._endings[0]):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> None:
        """Fork workers until the master closes the socket."""
        while True:
            ready = {number for number, _ in self._poll.poll()}
            with suppress(BlockingIOError):
                os.read(self._endings[0], _READ_SIZE)
            self._report_ended()
            if REQUESTS_FD in ready and not self._carry_out():
                return

    def _carry_out(self) -> bool:
        """Carry out the requests that have arrived; return whether more may come."""
        requests = self._requests.read()
        for request in requests or ():
            if "start" in request:
                self._start(request["start"])
            else:
                self._kill(request["kill"])
        return requests is not None

    def _start(self, key: int) -> None:
        pipe, shared = (self._requests.descriptors.popleft() for _ in range(2))
        try:
            pid = os.fork()
        except OSError as error:
            _report(failed=key, why=str(error))
        else:
            if not pid:
                self._turn_into_worker(pipe, shared)
            self._workers[key] = pid
            _report(started=key, pid=pid)
        # Otherwise the master would not notice that the worker's end is closed.
        os.close(pipe)
        os.close(shared)

    def _kill(self, key: int) -> None:
        if (pid := self._workers.get(key)) is not None:
            os.kill(pid, signal.SIGKILL)
        _report(killed=key)

    def _turn_into_worker(self, pipe: int, shared: int) -> NoReturn:
        """Run a worker in a forked process, without anything of the template's, and exit."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent(self._pid)
            # These replace the template's socket and pipe.
            os.dup2(pipe, PIPE_FD, inheritable=False)
            os.dup2(shared, SHARED_FD, inheritable=False)
            self._requests.forget()
            for descriptor in (pipe, shared, *self._endings):
                os.close(descriptor)
            run_worker()
        except SystemExit:
            raise
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _report_ended(self) -> None:
        for key, pid in list(self._workers.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._workers[key]
                is_signalled = os.WIFSIGNALED(status)
                number = os.WTERMSIG(status) if is_signalled else None
                _report(ended=key, signal=number, status=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
