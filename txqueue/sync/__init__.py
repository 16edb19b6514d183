"""Enqueue, read jobs and wait for their ends from scripts and threads, without Twisted."""

from txqueue.standalone import explained

try:
    from txqueue.sync.queue import Queue
    from txqueue.sync.transaction import BlockingTransaction
except ImportError as error:
    raise explained(error) from None

__all__ = ["BlockingTransaction", "Queue"]
