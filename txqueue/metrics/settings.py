"""The settings of the metrics."""

from __future__ import annotations

from importlib.util import find_spec

from attrs import field, frozen

from txqueue.errors import ConfigurationError
from txqueue.wire.endpoints import Endpoint

__all__ = ["MetricsSettings", "metrics_settings"]


@frozen
class MetricsSettings:
    """The settings of the metrics.

    Attributes:
        dsn: A libpq URI or keyword string.
        schema: The name of the schema.
        endpoint: Where they are served.
    """

    dsn: str = field(repr=False)
    schema: str
    endpoint: Endpoint


def metrics_settings(dsn: str, schema: str, endpoint: Endpoint) -> MetricsSettings:
    """Return the settings of the metrics.

    Raises:
        ConfigurationError: When prometheus_client is not installed, or the endpoint is in use.
    """
    if find_spec("prometheus_client") is None:
        raise ConfigurationError(
            "metrics need prometheus_client", "run: pip install 'txqueue[metrics]'"
        )
    endpoint.ensure_free("choose another --metrics")
    return MetricsSettings(dsn, schema, endpoint)
