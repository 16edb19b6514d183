"""Watches for jobs that are assigned to a live node but not held by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Final

from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session

__all__ = ["Strays"]

EVERY: Final = 0.5
# A heartbeat reports how many jobs the node holds at that time. Jobs assigned within two heartbeats
# may be on their way; a silent node, or one whose lease a peer renews, has no current report.
_MISSING: Final = """
    select node.name, count(*) - (node.report ->> 'holds')::integer
      from {schema}.node_info as node join {schema}.job_assigned as job using (incarnation)
     where node.state = 'alive' and node.vouched_at is null and node.report ? 'holds'
       and node.heartbeat_at > clock_timestamp() - node.lease / 2
       and job.assigned_at < node.heartbeat_at - node.lease / 2 - interval '1 second'
     group by node.name, node.report, node.incarnation
    having count(*) > (node.report ->> 'holds')::integer"""


class Strays:
    """Measures for how long live nodes lack jobs that are assigned to them.

    Args:
        open_session: Opens a separate connection, which queries the database twice a second.

    Attributes:
        longest: The longest time, in seconds, for which a node lacked jobs assigned to it.
        what: A text that names that node and how many jobs it lacked.
    """

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open = open_session
        self._stopped = Event()
        self._since: dict[str, float] = {}
        self.longest = 0.0
        self.what = ""
        self._thread = Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            # A fault may have stopped the database; periods without an answer do not count.
            with suppress(TxqueueError), self._open() as session:
                while not self._stopped.wait(EVERY):
                    self._note(dict(session.rows(_MISSING.format(schema=session.schema))))
            self._since.clear()
            self._stopped.wait(EVERY)

    def _note(self, processes: dict[str, int]) -> None:
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in processes}
        for name, since in self._since.items():
            if now - since > self.longest:
                self.longest = now - since
                self.what = f"node {name} lacked {processes[name]} jobs that were assigned to it"
