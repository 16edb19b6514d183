"""What every test can use; the fixtures themselves are in `tests/fixtures/`, by theme."""

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.running",
    "tests.fixtures.servers",
    "tests.fixtures.leftovers",
    "tests.fixtures.databases",
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
