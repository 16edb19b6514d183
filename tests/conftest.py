"""What every test can use; the fixtures themselves are in `tests/fixtures/`, by theme."""

import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.each_commit",
    "tests.fixtures.hangs",
    "tests.fixtures.running",
    "tests.fixtures.servers",
    "tests.fixtures.leftovers",
    "tests.fixtures.databases",
    "tests.fixtures.django_thread",
]

# How fast examples are made says something of the machine, not of the code; async tests are bounded
# as a whole. And an example that needs an empty database empties it itself.
settings.register_profile(
    "txqueue",
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("txqueue")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each run of pytest a temporary folder of its own.

    The folder that all runs share is closed to other accounts whenever a run starts; servers of
    other runs, which have an account of their own under root, then lose their data.
    """
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="txqueue-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


def pytest_sessionstart() -> None:
    """Have the reactor of the tests keep no context of a job for what comes later, as a worker's.

    Else a test sees the job that one before it has run, in its log for instance.
    """
    from twisted.internet import reactor

    from txqueue.worker.entry import WorkerReactor

    reactor.__class__ = WorkerReactor  # type: ignore[assignment]  # a module to mypy
