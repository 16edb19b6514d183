"""How a worker runs its jobs and reports their ends."""
