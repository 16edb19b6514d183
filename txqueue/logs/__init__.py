"""The log of a node's processes: its formats, and what of it is kept with failed attempts."""
