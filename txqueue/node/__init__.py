"""The services of a node's master; `services` makes and joins them. Internal."""
