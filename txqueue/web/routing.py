"""Finds the handler of a path."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import frozen

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import meant, plain
from txqueue.web.visitors import Role

__all__ = ["Handler", "Route", "Router", "page"]

Handler = Callable[[Any, Any], Awaitable[Any]]


@frozen
class Route:
    """A kind of request that the dashboard answers.

    Attributes:
        method: ``GET`` or ``POST``.
        pattern: The path; ``{name}`` stands for a part of it, ``{name*}`` for all that is left.
        role: The least role of a visitor.
        handler: Answers it.
        fields: The names that its address or its form may have. One with any other is refused, as
            a misspelt filter must not be taken for none.
        title: The name of its page in the menu; empty for none.
    """

    method: str
    pattern: str
    role: Role
    handler: Handler
    fields: Collection[str] = ()
    title: str = ""

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return the named parts of a path; None if it is another one."""
        matched = _compiled(self.pattern).fullmatch(path)
        return None if matched is None else matched.groupdict()

    def check(self, names: Iterable[str]) -> None:
        """Check the names that the address and the form of a request have.

        Raises:
            ConfigurationError: When one is unknown.
        """
        for name in names:
            if name not in self.fields:
                valid = f"those of this page: {', '.join(sorted(self.fields)) or 'none'}"
                raise ConfigurationError(
                    f"there is no filter or field {plain(name)[:50]}",
                    meant(name, self.fields) or valid,
                )


def page(path: str, handler: Handler, title: str = "", *fields: str) -> Route:
    """Return the route of a page for viewers; one with a title is in the menu."""
    return Route("GET", path, Role.VIEWER, handler, fields, title)


class Router:
    """The routes.

    Args:
        routes: All routes.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """Return the route of a request and the named parts of its path; None if there is none."""
        for route in self.routes:
            if route.method == method and (names := route.match(path)) is not None:
                return route, names
        return None

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path has."""
        return sorted({route.method for route in self.routes if route.match(path) is not None})


_NAMED = re.compile(r"\{(\w+)(\*?)\}")


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern; `re` keeps those it has compiled."""
    parts, end = [], 0
    for placeholder in _NAMED.finditer(pattern):
        parts.append(re.escape(pattern[end : placeholder.start()]))
        parts.append(f"(?P<{placeholder[1]}>{'.+' if placeholder[2] else '[^/]+'})")
        end = placeholder.end()
    return re.compile("".join(parts) + re.escape(pattern[end:]), re.DOTALL)
