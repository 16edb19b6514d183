"""The client: enqueues work, queries jobs and waits for them. Internal."""
