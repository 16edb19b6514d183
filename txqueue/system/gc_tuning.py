"""What processes of ours, which run for months, keep of their memory and what they give back."""

from __future__ import annotations

import ctypes
import gc

__all__ = ["exempt_what_is_there", "give_back", "look_often"]

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


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
    """Collect garbage of all generations after 5,000 new objects, not 80,000.

    For processes of which few objects outlive a turn of the reactor, all of them small: garbage in
    reference cycles stayed for hours. An application's process may have large objects.
    """
    gc.set_threshold(700, 1, 1)


def give_back() -> None:
    """Have the C library return what is free within its heap: it does so at the end of it only.

    The texts of claims come and go, and what is small and stays lies in between. Other C libraries
    than glibc have no such call: there nothing happens.
    """
    if _TRIM is not None:
        _TRIM(0)
