"""The wire floor: the only place that knows AMP."""
