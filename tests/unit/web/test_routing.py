"""Finding the handler of a path."""

from typing import Any

import pytest

from txqueue.web.messages import Role, Route, routes_by_method


async def handler(_visit: Any) -> None:
    """Stand for a page."""


PATHS = (("GET", "/"), ("GET", "/jobs/{id}"), ("POST", "/jobs/{id}"))
ROUTES = [Route(method, path, Role.VIEWER, handler) for method, path in PATHS]


@pytest.mark.parametrize(
    ("method", "path", "names"),
    [
        ("GET", "/", {}),
        ("GET", "/jobs/12", {"id": "12"}),
        ("POST", "/jobs/a b", {"id": "a b"}),
        ("GET", "/jobs/", None),
        ("GET", "/jobs/1/2", None),
        ("POST", "/", None),
        ("GET", "/.", None),
    ],
)
def test_a_path_has_the_route_of_its_pattern(
    method: str, path: str, names: dict[str, str] | None
) -> None:
    """Or none."""
    found = routes_by_method(ROUTES, path).get(method)
    assert (None if found is None else dict(found[1])) == names


def test_a_path_tells_its_methods() -> None:
    """To answer a wrong one."""
    assert routes_by_method(ROUTES, "/jobs/1").keys() == {"GET", "POST"}
    assert routes_by_method(ROUTES, "/nowhere") == {}
