"""The command ``txqueue``."""

from txqueue.cli.console import main

__all__ = ["main"]
