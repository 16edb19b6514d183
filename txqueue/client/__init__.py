"""What application code enqueues and asks with."""
