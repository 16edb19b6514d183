#!/usr/bin/env bash
# Twisted: DeferredSemaphore and DeferredLock run the next waiter inside of release(), so waiters nest.
#
# Guess: each waiter gets its turn after the one before it; how many wait does not matter.
# Seen (Twisted 26.10.0): release() fires the next waiter's Deferred. If that waiter ends its turn without having waited
# for the reactor (a cached answer, a closed pool, a refused value), its own release() runs within the first one, and so
# on: each waiter of `async with semaphore` adds the same number of frames to the stack. Some dozens are fine; with
# Python's limit of 1,000 frames about 120 fill it. The RecursionError is then raised in Twisted's own code between two
# waiters: it is logged as an unhandled error at best, and the callers that still wait are never woken.
# Remedy: a subclass whose release() only counts while another release() runs, and whose outermost one loops.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install twisted==26.10.0
"$folder/venv/bin/python" - <<'PY'
import sys

import twisted
from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore


def depth():
    frame, frames = sys._getframe(), 0
    while frame is not None:
        frame, frames = frame.f_back, frames + 1
    return frames


class InTurn(DeferredSemaphore):
    ending = 0

    def release(self):
        self.ending += 1
        if self.ending > 1:
            return
        while self.ending:
            try:
                super().release()
            finally:
                self.ending -= 1


async def take(turns, depths):
    async with turns:
        depths.append(depth())


def depths_of(turns, waiters=50):
    depths = []
    turns.acquire()
    for _ in range(waiters):
        Deferred.fromCoroutine(take(turns, depths))
    turns.release()
    assert len(depths) == waiters
    return depths


print(twisted.__version__)
for turns in (DeferredSemaphore(1), DeferredLock()):
    depths = depths_of(turns)
    added = depths[-1] - depths[-2]
    print(f"{type(turns).__name__}: the first of 50 waiters runs at depth {depths[0]}, the last at {depths[-1]}: {added} frames each")
    assert added > 1 and depths[-1] - depths[0] == 49 * added, depths
flat = depths_of(InTurn(1))
print(f"release() in a loop: all at depth {flat[0]}")
assert set(flat) == {flat[0]}, flat
PY
