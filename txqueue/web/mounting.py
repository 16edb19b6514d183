"""Several databases below one base path: each has a door of its own."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.web import resource, server

from txqueue.web.site import Door

__all__ = ["MountedDoors"]


class MountedDoors(resource.Resource):
    """Passes each request to the door that its path names.

    Args:
        index: Answers for all other paths.
        doors: The doors by their base paths, without slashes at their ends.
    """

    isLeaf = True

    def __init__(self, index: Door, doors: Mapping[str, Door]) -> None:
        super().__init__()
        self._index = index
        self._doors = {base.encode(): door for base, door in doors.items()}

    def render(self, request: server.Request) -> int:
        """Start to answer a request."""
        path = request.uri.partition(b"?")[0]
        for base, door in self._doors.items():
            if path == base or path.startswith(base + b"/"):
                return door.render(request)
        return self._index.render(request)
