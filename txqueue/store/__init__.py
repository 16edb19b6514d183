"""Storage: the only package that runs SQL and uses the driver. Internal."""
