"""What every test can use; the fixtures themselves are in `tests/fixtures/`, by theme."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.running",
    "tests.fixtures.servers",
    "tests.fixtures.leftovers",
    "tests.fixtures.databases",
]

# A busy machine must not make an example fail; async tests are bounded as a whole.
# The tests that share a fixture between examples empty the tables themselves.
settings.register_profile(
    "txqueue", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("txqueue")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Undo what pytest-twisted does to a property test.

    It wraps the inner test at every call, so that one with several parameters would be wrapped
    several times, and would wait for the reactor inside the reactor.
    """
    handle = getattr(pyfuncitem.obj, "hypothesis", None)
    inner = getattr(handle, "inner_test", None)
    try:
        return (yield)
    finally:
        if handle is not None:
            handle.inner_test = inner
