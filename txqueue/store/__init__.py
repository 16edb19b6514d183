"""The storage floor: the only place that runs SQL and knows the driver."""
