"""Measures an installation with real nodes and ordinary work items. Internal."""
