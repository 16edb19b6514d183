"""Property tests of pure values: few examples, for they run on a machine that may be busy."""

from hypothesis import HealthCheck, settings

# How fast examples are made says something of the machine, not of the code.
settings.register_profile(
    "unit", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")
