"""What the pages work with, and the mark of the database that a page shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from txqueue.errors import TxqueueError
from txqueue.store.inquiries.operations import Operations
from txqueue.store.reads.archive_process import ArchiveProcess
from txqueue.web.logins import Logins, Notices
from txqueue.web.messages import PageRequest, Reply, html
from txqueue.web.reads import Reads
from txqueue.web.rendering import Renderer

__all__ = ["IndexServices", "PageServices", "VisitorServices", "marked"]


@frozen
class VisitorServices:
    """The collaborators of all pages.

    Attributes:
        renderer: Makes the HTML.
        notices: Texts about acts.
        logins: Who has logged in; None if there are no users.
    """

    renderer: Renderer
    notices: Notices
    logins: Logins | None

    def show(self, name: str, request: PageRequest, status: int = 200, **values: Any) -> Reply:
        """Return the reply with a rendered page."""
        return html(self.renderer.page(name, request, **values), status)


@frozen
class IndexServices(VisitorServices):
    """The collaborators of the list of databases.

    Attributes:
        databases: Reads of each database what its pages show, by its name.
    """

    databases: Mapping[str, Reads]


@frozen
class PageServices(VisitorServices):
    """The collaborators of the pages of a database.

    Attributes:
        reads: Reads what the pages show.
        operations: Runs operators' acts.
        place: Differs between the places of databases.
        archive: Reads archived jobs.
    """

    reads: Reads
    operations: Operations
    place: str
    archive: ArchiveProcess

    async def mark(self) -> str:
        """Return a text that differs between databases, also of one name one after the other.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the query takes too long.
        """
        await self.reads.identity()
        return self.last_mark

    @property
    def last_mark(self) -> str:
        """The mark of the database that answered last."""
        return f"{self.place}.{self.reads.last_identity}"

    async def act(
        self, request: PageRequest, name: str, arguments: Mapping[str, object]
    ) -> Sequence[Any]:
        """Run an act on the database that the page shows; return the row that the act returns.

        The act is recorded with the visitor's name.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the database refuses the act, is another one now, or takes too long.
        """
        signed = {**arguments, "who": request.visitor.name}
        return await self.operations.act(name, signed, request.mark.rpartition(".")[2])


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
    """Return the mark; that of the last figures, which the page shows, without an answer."""
    try:
        return await services.mark()
    except TxqueueError:
        return services.last_mark
