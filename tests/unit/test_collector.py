"""Collections leave alone what a process has loaded, and find garbage of before and after."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from txqueue.collector import exempt_what_is_there, look_often


class Cycle:
    """Something that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    # As tests/fixtures/leftovers.py left it.
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.collect()
    gc.freeze()


def test_what_is_there_is_looked_at_no_more() -> None:
    """What comes later is."""
    before = [object()]
    exempt_what_is_there()
    later = [object()]
    watched = {id(each) for each in gc.get_objects()}
    assert id(before) not in watched
    assert id(later) in watched


def test_what_nobody_needs_any_more_is_not_kept() -> None:
    """Garbage of the start would stay for as long as the process."""
    garbage = weakref.ref(Cycle())
    exempt_what_is_there()
    assert garbage() is None


def test_garbage_that_comes_later_is_found() -> None:
    """It has nothing to do with what was there."""
    exempt_what_is_there()
    garbage = weakref.ref(Cycle())
    gc.collect()
    assert garbage() is None


def test_garbage_that_grew_old_is_found_soon() -> None:
    """Once a few thousand objects have come: what outlived two collections, for one."""
    exempt_what_is_there()
    look_often()
    old = Cycle()
    gc.collect(1)
    garbage = weakref.ref(old)
    del old
    kept = [[number] for number in range(10_000)]
    assert garbage() is None, len(kept)
