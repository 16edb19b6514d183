"""The settings of a dashboard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from attrs import field, frozen

from txqueue.errors import ConfigurationError
from txqueue.system.settings import Settings
from txqueue.web.databases import ShownDatabase
from txqueue.web.identification import IdentityProxy, parsed_proxy
from txqueue.web.users import User, read_users
from txqueue.wire.endpoints import Endpoint

__all__ = ["DashboardSettings", "dashboard_settings"]


@frozen
class DashboardSettings:
    """The settings of a dashboard.

    Attributes:
        databases: The databases that it shows; the only one may have no name.
        endpoint: Where it listens.
        users: The users by name; None if none are configured, so that all of this host may look.
        key: A secret with which one operator logs in; None for none.
        proxy: The proxy that identifies users; None for none.
        hosts: Host names that it answers to, besides loopback's and the endpoint's.
        base: Its base path, without a slash at its end.
        title: The name of the installation.
    """

    databases: tuple[ShownDatabase, ...]
    endpoint: Endpoint
    users: Mapping[str, User] | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    proxy: IdentityProxy | None = None
    hosts: frozenset[str] = frozenset()
    base: str = ""
    title: str = "txqueue"


def dashboard_settings(
    settings: Settings, databases: tuple[ShownDatabase, ...], endpoint: Endpoint
) -> DashboardSettings:
    """Return the settings of a dashboard.

    Args:
        settings: ``web_users``, ``web_proxy``, ``web_hosts``, ``web_base`` and ``web_title``.
        databases: The databases.
        endpoint: Where the dashboard listens.

    Raises:
        ConfigurationError: When a setting is not valid, or Jinja2 is not installed.
    """
    if find_spec("jinja2") is None:
        raise ConfigurationError("the dashboard needs Jinja2", "run: pip install 'txqueue[web]'")
    users, proxy = settings.get("web_users"), settings.get("web_proxy")
    return DashboardSettings(
        databases=databases,
        endpoint=endpoint,
        users=None if users is None else read_users(Path(str(users))),
        key=settings.get("web_key"),
        proxy=None if proxy is None else parsed_proxy(str(proxy)),
        hosts=frozenset(settings.names("web_hosts", [])),
        base=_base(str(settings.get("web_base", ""))),
        title=str(settings.get("web_title", "txqueue")),
    )


def _base(text: str) -> str:
    """Return a base path without a slash at its end."""
    base = text.rstrip("/")
    if base and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", base):
        raise ConfigurationError(
            f"{text!r} is not a base path", "write it like /queue: letters, digits, . _ ~ -"
        )
    return base
