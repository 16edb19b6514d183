"""Enqueue, read jobs and wait for their ends from scripts and threads, without Twisted."""

from txqueue.sync.queue import Queue
from txqueue.sync.transaction import BlockingTransaction

__all__ = ["BlockingTransaction", "Queue"]
