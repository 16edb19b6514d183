"""What the pages work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from txqueue.store.inquiries.operations import Operations
from txqueue.store.reads.archive_process import ArchiveProcess
from txqueue.web.logins import Logins, Notices
from txqueue.web.messages import PageRequest, Reply, html
from txqueue.web.reads import Reads
from txqueue.web.rendering import Renderer

__all__ = ["IndexServices", "PageServices", "VisitorServices"]


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
        return f"{self.place}.{await self.reads.identity()}"

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
