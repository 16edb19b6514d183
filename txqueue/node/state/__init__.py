"""State that the services of a node share, and protocols: nothing here calls a service."""
