#!/usr/bin/env bash
# Python: timers of asyncio and Twisted over epoll are rounded up to whole milliseconds, and those of uvloop to the nearest.
#
# Guess: asyncio.sleep(0.0005) and reactor.callLater(0.0005) take 0.5 ms and a little, as time.sleep(0.0005) does.
# Seen (CPython 3.11.7, Twisted 26.10.0, uvloop 0.23.0, Linux 6.18): medians of 0.58 ms for time.sleep, but 1.1 for asyncio
# and for Twisted's epoll reactor, whose poll() rounds a timeout up to milliseconds, which epoll_wait counts in. Over
# select(), both take 0.6. uvloop sleeps 0.003 ms: 0.5 becomes 0, and a loop of such sleeps keeps a core busy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install Twisted==26.10.0 uvloop==0.23.0
cat > "$folder/timer.py" <<'PY'
import asyncio
import selectors
import statistics
import sys
import time

TIMES = 201
took = []


async def sleeps():
    for _ in range(TIMES):
        began = time.perf_counter()
        await asyncio.sleep(0.0005)
        took.append(time.perf_counter() - began)


def twisted(install):
    install()
    from twisted.internet import reactor

    def due(began):
        took.append(time.perf_counter() - began)
        if len(took) == TIMES:
            reactor.stop()
        else:
            reactor.callLater(0.0005, due, time.perf_counter())

    reactor.callLater(0.0005, due, time.perf_counter())
    reactor.run()


def blocking():
    for _ in range(TIMES):
        began = time.perf_counter()
        time.sleep(0.0005)
        took.append(time.perf_counter() - began)


def by_uvloop():
    import uvloop

    uvloop.run(sleeps())


def of_twisted(name):
    from importlib import import_module

    twisted(import_module(f"twisted.internet.{name}").install)


{
    "time.sleep": blocking,
    "asyncio": lambda: asyncio.run(sleeps()),
    "uvloop": by_uvloop,
    "twisted epoll": lambda: of_twisted("epollreactor"),
    "asyncio select": lambda: asyncio.SelectorEventLoop(selectors.SelectSelector()).run_until_complete(sleeps()),
    "twisted select": lambda: of_twisted("selectreactor"),
}[sys.argv[1]]()
print(statistics.median(took) * 1000)
PY
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
import subprocess
import sys

names = ("time.sleep", "asyncio select", "twisted select", "asyncio", "twisted epoll", "uvloop")
program = os.environ["FOLDER"] + "/timer.py"
seen = {
    name: float(subprocess.check_output([sys.executable, program, name], text=True)) for name in names
}
print(sys.version.split()[0], seen)
exact, rounded = names[:3], names[3:5]
assert all(0.5 <= seen[name] < 1 for name in exact), seen
assert all(seen[name] >= 1 for name in rounded), seen
assert seen["uvloop"] < 0.1, seen
PY
