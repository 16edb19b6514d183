"""Who sent a request."""

from collections.abc import Callable, Mapping

import pytest

from txqueue.errors import AdminRefused, ConfigurationError
from txqueue.web.logins import Identification, IdentityProxy, User, parsed_proxy
from txqueue.web.messages import Role

USERS = {"ann": User("ann", Role.OPERATOR), "bob": User("bob", Role.VIEWER)}
PROXY = IdentityProxy("www-data", "x-user")


def named(name: str) -> Callable[[object], str]:
    """Identify every caller by a name."""
    return lambda _transport: name


def unknown(_transport: object) -> str:
    """Refuse to name a caller, as over a plain port."""
    raise AdminRefused("refused", "")


@pytest.mark.parametrize(
    ("caller", "users", "headers", "name", "role"),
    [
        (unknown, None, {}, "a visitor of this host", Role.VIEWER),
        (unknown, USERS, {}, "", Role.STRANGER),
        (unknown, USERS, {"x-user": "ann"}, "", Role.STRANGER),
        (named("cyd"), USERS, {"x-user": "ann"}, "cyd", Role.OPERATOR),
        (named("www-data"), USERS, {"x-user": "ann"}, "ann", Role.OPERATOR),
        (named("www-data"), USERS, {"x-user": "bob"}, "bob", Role.VIEWER),
        (named("www-data"), None, {"x-user": "eve"}, "eve", Role.VIEWER),
        (named("www-data"), USERS, {}, "", Role.STRANGER),
        (named("www-data"), USERS, {"x-user": "a\nb"}, "", Role.STRANGER),
    ],
)
def test_a_request_has_the_role_of_its_sender(
    caller: Callable[[object], str],
    users: Mapping[str, User] | None,
    headers: Mapping[str, str],
    name: str,
    role: Role,
) -> None:
    """Only the named proxy's header counts, and only the file makes operators of its users."""
    identification = Identification(users, None, PROXY, caller)
    visitor = identification.visitor(object(), None, headers)
    assert (visitor.name, visitor.role) == (name, role)


@pytest.mark.parametrize("text", ["", "www-data", ":X-User", "www-data:", "www-data:X User"])
def test_a_proxy_needs_a_name_and_a_header(text: str) -> None:
    """With an example."""
    with pytest.raises(ConfigurationError, match="NAME:HEADER"):
        parsed_proxy(text)
    assert parsed_proxy("www-data:X-User") == PROXY
