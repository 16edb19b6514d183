"""Injects faults, and checks whether the queue keeps its promises under them."""
