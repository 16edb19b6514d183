"""Python's garbage collector, in processes of ours that run for months."""

from __future__ import annotations

import gc

__all__ = ["exempt_what_is_there"]


def exempt_what_is_there() -> None:
    """Have collections look no more at what a process has loaded: it is needed until the end.

    They are short from then on, and come before there is much to collect: of a process that has
    much, Python looks at all only once a quarter more is there. As Instagram's do: "Copy-on-write
    friendly Python garbage collection", 2017.
    """
    gc.collect()
    gc.freeze()
