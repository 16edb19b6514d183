"""The command ``txqueue``."""

from txqueue.cli.root import main

__all__ = ["main"]
