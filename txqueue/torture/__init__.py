"""Faults on purpose, and whether the queue keeps its promises under them."""
