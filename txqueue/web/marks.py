"""Marks pages with the database that they show, so that their forms act on no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import evolve

from txqueue.errors import TxqueueError
from txqueue.web.messages import PageRequest, Reply
from txqueue.web.page_services import PageServices

__all__ = ["marked"]

Handler = Callable[[PageServices, PageRequest], Awaitable[Reply]]


def marked(handler: Handler) -> Handler:
    """Mark a page with the database that it shows, if its visitor may act.

    The mark is read before the page: if another database gets the name in between, the page's
    forms are refused.
    """

    async def answer(services: PageServices, request: PageRequest) -> Reply:
        if request.visitor.may_act:
            request = evolve(request, mark=await _mark(services))
        return await handler(services, request)

    return answer


async def _mark(services: PageServices) -> str:
    """Return the mark; an empty one, which no act accepts, if it cannot be read."""
    try:
        return await services.mark()
    except TxqueueError:
        # The page may still show its last figures.
        return ""
