"""What the pages work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from txqueue.store.operations import Operations
from txqueue.web.logins import Logins, Notices
from txqueue.web.messages import PageRequest, Reply, html
from txqueue.web.reads import Reads
from txqueue.web.rendering import Renderer
from txqueue.web.visitors import Visitor

__all__ = ["PageServices"]


@frozen
class PageServices:
    """The collaborators of the pages.

    Attributes:
        reads: Reads what the pages show.
        operations: Runs operators' acts.
        renderer: Makes the HTML.
        notices: Texts about acts.
        logins: Who has logged in; None if there are no users.
    """

    reads: Reads
    operations: Operations
    renderer: Renderer
    notices: Notices
    logins: Logins | None

    def show(self, name: str, request: PageRequest, status: int = 200, **values: Any) -> Reply:
        """Return the reply with a rendered page."""
        return html(self.renderer.page(name, request, **values), status)

    async def act(
        self, visitor: Visitor, name: str, arguments: Mapping[str, object]
    ) -> Sequence[Any]:
        """Run an act, recorded with the visitor's name; return the row that it returns.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the database refuses the act, or it takes too long.
        """
        return await self.operations.act(name, {**arguments, "who": visitor.name})
