"""Names the run that blocks this process, when its master asks by a signal."""

from __future__ import annotations

import signal
from types import FrameType

from txqueue.model.run_log import RUNNING
from txqueue.system.inflight import InFlight

__all__ = ["name_blocking_run"]


def name_blocking_run(in_flight: InFlight) -> None:
    """Have SIGURG note the job whose handler runs at that moment.

    Python calls the function between two instructions of the handler, in its context. The signal is
    one that the system ignores where nothing was set, and that no library uses.

    Args:
        in_flight: Takes the number of the job, for the master to read.
    """

    def name(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        run = RUNNING.get()
        in_flight.name_blocker(0 if run is None else run.id)

    signal.signal(signal.SIGURG, name)
    # The starter of this process, or an import, may have blocked it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGURG})
    signal.siginterrupt(signal.SIGURG, False)
