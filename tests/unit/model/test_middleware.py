"""The register of middleware: its order, its two forms, and what is refused."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from txqueue import middleware
from txqueue.errors import InvalidWork
from txqueue.model import directives as registry

Next = Callable[[], Awaitable[object]]


@pytest.fixture(autouse=True)
def _none_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", [])


async def early(call_next: Next, job: object) -> object:
    """Pass on."""
    return await call_next()


async def late(call_next: Next, job: object) -> object:
    """Pass on."""
    return await call_next()


def threaded(call_next: Callable[[], object], job: object) -> object:
    """Pass on."""
    return call_next()


def test_a_lower_order_is_further_outside() -> None:
    """Of equal ones, the first; each is registered once."""
    middleware(late)
    assert middleware(early, order=-1) is early
    middleware(threaded)
    middleware(late, order=-5)
    assert registry.coroutine_layers() == (early, late)
    assert registry.thread_layers() == (threaded,)


def test_it_decorates_and_takes_objects() -> None:
    """An object that is called by a coroutine is one, too."""

    class Tracker:
        async def __call__(self, call_next: Next, job: object) -> object:
            return await call_next()

    @middleware(order=2)
    async def decorated(call_next: Next, job: object) -> object:
        return await call_next()

    tracker = middleware(Tracker(), order=1)
    assert registry.coroutine_layers() == (tracker, decorated)


@pytest.mark.parametrize("wrong", [lambda: None, "text", abs])
def test_what_cannot_be_called_so_is_refused(wrong: Any) -> None:
    """At registration, and nothing is registered."""
    with pytest.raises(InvalidWork, match="cannot be called with call_next and the job"):
        middleware(wrong)
    assert (registry.coroutine_layers(), registry.thread_layers()) == ((), ())
