"""Connections: opened, lent, bounded, and their errors."""
