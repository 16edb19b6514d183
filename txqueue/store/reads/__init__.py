"""Read-only queries about the queue."""
