"""What every test can use; the fixtures themselves are in `tests/fixtures/`, by theme."""

from hypothesis import settings

pytest_plugins = [
    "tests.fixtures.running",
    "tests.fixtures.servers",
    "tests.fixtures.leftovers",
    "tests.fixtures.databases",
]

# A busy machine must not make an example fail; async tests are bounded as a whole.
settings.register_profile("txqueue", deadline=None)
settings.load_profile("txqueue")
