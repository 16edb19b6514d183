"""Enqueue, read jobs and wait for their ends from asyncio, without Twisted: over psycopg 3."""

from txqueue.standalone import explained

try:
    from txqueue.aio.queue import Queue
    from txqueue.aio.transaction import AsyncTransaction
except ImportError as error:
    raise explained(error) from None

__all__ = ["AsyncTransaction", "Queue"]
