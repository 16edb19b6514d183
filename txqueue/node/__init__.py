"""The services of a node's master: a file each, put together in ``service``."""
