"""Enqueue, read jobs and wait for their ends from asyncio, without Twisted: over psycopg 3."""

from txqueue.aio.queue import Queue
from txqueue.aio.transaction import AsyncTransaction

__all__ = ["AsyncTransaction", "Queue"]
