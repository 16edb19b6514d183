"""The process of a master: its reactor, signals, children, memory and exit status."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.internet.process import reapAllProcesses
from twisted.internet.task import LoopingCall

from txqueue.logs.setup import begin_master_log, end_master_log
from txqueue.node.signals import Stoppable, follow_signals
from txqueue.system.child_processes import ChildPoll, unblock_signals
from txqueue.system.clock import steady
from txqueue.system.gc_tuning import collect_often, freeze_loaded_objects, return_free_memory

__all__ = ["MasterNode", "install_reactor", "prepare_process", "running_reactor"]

# Seconds after which a master returns free memory to the system again.
GIVE_BACK = 60.0


class MasterNode(Stoppable, Protocol):
    """A node, as its process sees it."""

    @property
    def has_failed(self) -> bool:
        """Whether the node has stopped by itself."""


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


def prepare_process(reactor: Any, nodes: Sequence[MasterNode]) -> None:
    """Have the process follow signals, notice its children and exit as its nodes end."""
    reactor.callWhenRunning(begin_master_log)
    reactor.addSystemEventTrigger("after", "shutdown", end_master_log)
    reactor.callWhenRunning(follow_signals, reactor, nodes)
    reactor.callWhenRunning(_keep_memory_flat, reactor)
    reactor.callWhenRunning(_notice_children, reactor)
    # Twisted calls the trigger that was registered last first.
    reactor.callWhenRunning(atexit.register, _exit_as_failed, nodes)


def _exit_as_failed(nodes: Sequence[MasterNode]) -> None:
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
    ChildPoll(reactor, reapAllProcesses).start()
