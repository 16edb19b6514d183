"""The process of a master: its reactor, children, memory and exit status; and what it does at a
signal.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.process import reapAllProcesses
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from txqueue.logs.setup import begin_master_log, end_master_log
from txqueue.system.clock import steady
from txqueue.system.processes import (
    collect_often,
    freeze_loaded_objects,
    poll_children,
    return_free_memory,
    unblock_signals,
)

if TYPE_CHECKING:
    from txqueue.node.node import Node

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
# A process without a handler ends at these at once, and leaves its jobs to the rescue.
_OTHERS: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# Seconds after the first signal to stop in which others are the same request: `timeout` sends
# SIGTERM to its command and to the whole group; a terminal sends SIGINT to the node and to the
# process that started it, which passes it on.
ONE_REQUEST: Final = 0.25
# Seconds after the second signal in which the process ends even if its reactor hangs, or a thread
# of it, such as one that waits for a name server. To stop takes at most 5 s.
LAST_LIMIT: Final = 10.0
# Seconds for the line that says so.
LAST_REPORT: Final = 3.0
_log = Logger()


def follow_signals(
    reactor: IReactorFromThreads, nodes: Sequence[Node], limit: float = LAST_LIMIT
) -> None:
    """Drain at the first signal to stop, stop at once at the second, and survive all others.

    Signals within `ONE_REQUEST` of the first are not a second one.

    SIGHUP means that the terminal is gone, if the process has one. It drains then, but never stops
    at once: a shell and the kernel both send it.

    Args:
        reactor: Runs; its handler of SIGTERM begins to stop the services.
        nodes: The nodes of the process.
        limit: Seconds after the second signal in which the process ends, come what may.
    """
    drain = signal.getsignal(signal.SIGTERM)
    first_at = 0.0
    last_call: threading.Timer | None = None

    def first(number: int, frame: FrameType | None) -> None:
        nonlocal first_at
        first_at = time.monotonic()
        for stop_signal in _STOPPING:
            signal.signal(stop_signal, second)
        for node in nodes:
            reactor.callFromThread(node.say_that_it_drains)
        if callable(drain):
            drain(number, frame)

    def second(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
        nonlocal last_call
        if time.monotonic() - first_at < ONE_REQUEST:
            return
        if last_call is None:
            last_call = threading.Timer(limit, _end_by, [number])
            last_call.daemon = True
            last_call.start()
        for node in nodes:
            reactor.callFromThread(node.stop_at_once)

    def hung_up(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGTERM) is first:
            first(number, frame)

    for stop_signal in _STOPPING:
        signal.signal(stop_signal, first)
    if _has_terminal() and _is_default(signal.SIGHUP):
        signal.signal(signal.SIGHUP, hung_up)
    _ignore_others(lambda number: reactor.callFromThread(_log_ignored, number))


def _end_by(number: int) -> None:
    """End the process as a signal does that nothing handles; workers end as their pipes close."""
    # Whatever writes the log, such as an observer of --logger, must not keep the process.
    reporting = threading.Thread(target=_report_end, daemon=True)
    reporting.start()
    reporting.join(LAST_REPORT)
    # Only the main thread can set a handler.
    os._exit(128 + number)


def _report_end() -> None:
    _log.critical("the node did not stop in time after the second signal: it ends now")
    end_master_log()


def _ignore_others(report: Callable[[int], object]) -> None:
    """Only report the signals that end a process by default, except where a handler is set."""

    def ignored(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
        report(number)

    for signal_number in filter(_is_default, _OTHERS):
        signal.signal(signal_number, ignored)


def _is_default(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_DFL


def _has_terminal() -> bool:
    """Tell whether the process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _log_ignored(number: int) -> None:
    _log.info(
        "{name} is ignored; SIGTERM drains the node, and a restart reads new settings",
        name=signal.Signals(number).name,
    )


# Seconds after which a master returns free memory to the system again.
GIVE_BACK = 60.0


def install_reactor() -> None:
    """Install Twisted's default reactor with a steady clock; one that --reactor chose stays.

    ``twistd`` and ``twist`` install their own choice only after these options have been read.
    """
    if "twisted.internet.reactor" in sys.modules:
        return
    from twisted.internet.main import installReactor

    try:
        from twisted.internet.epollreactor import EPollReactor as Default
    except ImportError:
        from twisted.internet.selectreactor import SelectReactor as Default
    installReactor(steady(Default)())


def running_reactor() -> Any:
    """Return the reactor that `twistd` has installed before it parses the options."""
    from twisted.internet import reactor as running

    return running


def prepare_process(reactor: Any, nodes: Sequence[Node]) -> None:
    """Have the process follow signals, notice its children and exit as its nodes end."""
    reactor.callWhenRunning(begin_master_log)
    reactor.addSystemEventTrigger("after", "shutdown", end_master_log)
    reactor.callWhenRunning(follow_signals, reactor, nodes)
    reactor.callWhenRunning(_keep_memory_flat, reactor)
    reactor.callWhenRunning(_notice_children, reactor)
    # Twisted calls the trigger that was registered last first.
    reactor.callWhenRunning(atexit.register, _exit_as_failed, nodes)


def _exit_as_failed(nodes: Sequence[Node]) -> None:
    """Exit with status 1 if a node stopped by itself, so that a supervisor restarts it."""
    if any(node.has_failed for node in nodes):
        # twistd exits with 0 whatever happens, and an exception raised here would not change that.
        os._exit(1)


def _keep_memory_flat(reactor: IReactorTime) -> None:
    freeze_loaded_objects()
    collect_often()
    giving = LoopingCall(return_free_memory)
    giving.clock = reactor
    giving.start(GIVE_BACK, now=False)


def _notice_children(reactor: Any) -> None:
    """Notice the ends of workers even if the starter, or an import, has blocked SIGCHLD."""
    unblock_signals()
    poll_children(reactor, reapAllProcesses)
