"""Calls as an exchange: a generator that yields statements and receives their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

from txqueue.store.enqueueing.portable_calls import Parameters, Statement
from txqueue.store.inquiries.inquiry import aanswer, answer

__all__ = ["Exchange", "arun", "run"]

T = TypeVar("T")
Exchange: TypeAlias = Generator[Statement, Any, T]


def run(exchange: Exchange[T], send: Callable[[str, Parameters], Any]) -> T:
    """Run an exchange over a connection that blocks.

    Args:
        exchange: The exchange.
        send: Sends a statement; returns the only value of its result, None for no result.
    """
    return answer(exchange, lambda statement: send(*statement))


async def arun(exchange: Exchange[T], send: Callable[[str, Parameters], Awaitable[Any]]) -> T:
    """Run an exchange over a connection that does not block; see `run`."""
    return await aanswer(exchange, lambda statement: send(*statement))
