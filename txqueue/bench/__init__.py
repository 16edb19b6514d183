"""Measures an installation over its ordinary road: real nodes, ordinary work items."""
