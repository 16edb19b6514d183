"""Traces by OpenTelemetry, if the application has set it up. Internal; the names are in `spans`."""
