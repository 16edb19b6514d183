"""The stored functions that a node calls."""
