"""Serves a dashboard for a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from attrs import evolve

from tests.browser import Browser
from tests.waiting import running_reactor
from txqueue.web.service import Dashboard
from txqueue.web.settings import DashboardSettings, ShownDatabase
from txqueue.wire.endpoints import Endpoint

__all__ = ["PASSWORD", "log_in", "served"]

PASSWORD = "correct horse"


@asynccontextmanager
async def served(dsn: str, **settings: Any) -> AsyncIterator[Browser]:
    """Serve a dashboard on some port of loopback.

    Args:
        dsn: The database.
        settings: Settings that differ from the defaults.
    """
    chosen = evolve(DashboardSettings((ShownDatabase(dsn),), Endpoint(port=1)), **settings)
    dashboard = Dashboard(running_reactor(), chosen)
    port = running_reactor().listenTCP(0, dashboard.site(), interface="127.0.0.1")
    try:
        yield Browser(port.getHost().port, chosen.base)
    finally:
        await port.stopListening()
        await dashboard.stopService()


async def log_in(browser: Browser, name: str) -> None:
    """Log a user in."""
    answer = await browser.post("/login", {"name": name, "password": PASSWORD})
    assert (answer.status, answer.headers["location"]) == (303, f"{browser.base}/")
