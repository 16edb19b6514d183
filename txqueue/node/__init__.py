"""The services of a node's master, one file each; `services` wires them. Internal."""
