"""Runs inquiries over a pool of connections."""

from __future__ import annotations

from typing import TypeVar

from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.inquiries.inquiry import Inquiry, aanswer

__all__ = ["find"]

T = TypeVar("T")


async def find(pool: ConnectionPool, inquiry: Inquiry[T]) -> T:
    """Run an inquiry, each statement in a transaction of its own, and return its result."""
    return await aanswer(
        inquiry, lambda question: pool.query_dicts(question.sql, question.parameters)
    )
