"""What lasts is not looked at again, garbage is found soon, and free memory is given back."""

import gc
import re
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from txqueue.system.processes import collect_often, freeze_loaded_objects, return_free_memory


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


def test_loaded_objects_are_exempt_from_collection() -> None:
    """What comes later is."""
    before = [object()]
    freeze_loaded_objects()
    later = [object()]
    watched = {id(each) for each in gc.get_objects()}
    assert id(before) not in watched
    assert id(later) in watched


def test_records_without_followers_are_deleted() -> None:
    """Garbage of the start would stay for as long as the process."""
    garbage = weakref.ref(Cycle())
    freeze_loaded_objects()
    assert garbage() is None


def test_garbage_that_comes_later_is_found() -> None:
    """It has nothing to do with what was there."""
    freeze_loaded_objects()
    garbage = weakref.ref(Cycle())
    gc.collect()
    assert garbage() is None


def test_garbage_that_grew_old_is_found_soon() -> None:
    """Once a few thousand objects have come: what outlived two collections, for one."""
    freeze_loaded_objects()
    collect_often()
    old = Cycle()
    gc.collect(1)
    garbage = weakref.ref(old)
    del old
    kept = [[number] for number in range(10_000)]
    assert garbage() is None, len(kept)


def test_what_is_free_between_what_stays_is_given_back() -> None:
    """Large blocks that were freed, with small ones in between, take no memory any more."""
    large, small = [], []
    for _ in range(400):
        large.append(bytearray(b"x" * 60_000))
        small.append(bytearray(b"x" * 2_000))
    before = own_memory()
    large.clear()
    return_free_memory()
    assert own_memory() < before - 12_000, len(small)


def own_memory() -> int:
    """Return the KiB that this process has of its own."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])
