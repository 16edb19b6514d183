"""Metrics of a node and of its installation for Prometheus; needs the extra ``metrics``."""
