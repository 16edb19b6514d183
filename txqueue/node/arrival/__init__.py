"""The ways in which jobs arrive at a node."""
