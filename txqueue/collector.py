"""Python's garbage collector, in processes of ours that run for months."""

from __future__ import annotations

import gc

__all__ = ["exempt_what_is_there", "look_often"]


def exempt_what_is_there() -> None:
    """Have collections look no more at what a process has loaded: it is needed until the end.

    They are short from then on. As Instagram's do: "Copy-on-write friendly Python garbage
    collection", 2017.
    """
    gc.collect()
    gc.freeze()
    # All is looked at once a quarter more is there than the last time, which has to be after that.
    gc.collect()


def look_often() -> None:
    """Have all be looked at that is not exempt once 5,000 objects have come, not 80,000.

    For who makes few that outlive a turn of the reactor, all of them small: those that became
    garbage in circles lay about for hours. A process of an application's may have large ones.
    """
    gc.set_threshold(700, 1, 1)
