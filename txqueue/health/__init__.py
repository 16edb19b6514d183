"""The health of a master, for probes over HTTP and for service managers."""
