"""What the queues without Twisted share, blocking or not: `txqueue.aio` and `txqueue.sync`."""
