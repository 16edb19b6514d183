#!/usr/bin/env bash
# Twisted: on the asyncio reactor, delayed calls run in the context of another delayed call.
#
# Guess: `reactor.callLater` runs its function with the context variables of its caller, as asyncio's `call_later` does, or
# with none, as on the other reactors.
# Seen (Twisted 26.10.0, Python 3.11): the reactor has one timer of asyncio's for all delayed calls, with the context of
# the call that armed it last, and arms it again from inside of that. So one call made inside of a context, such as that
# of a request, gives that context to the later calls of others, whatever theirs was. On the epoll reactor they see none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install twisted==26.10.0
cat >"$folder/seen.py" <<'PY'
import asyncio
import sys
from contextvars import ContextVar, copy_context

if sys.argv[1] == "asyncio":
    from twisted.internet import asyncioreactor

    loop = asyncio.new_event_loop()
    asyncioreactor.install(loop)
from twisted.internet import reactor

request = ContextVar("request", default="none")
seen = []


def serve():
    """Serve a request, which has a context of its own."""
    request.set("of a request")
    reactor.callLater(0.05, lambda: None)


async def serve_in_task():
    """Do it in a task."""
    serve()


def begin():
    reactor.callLater(0.5, lambda: seen.append(request.get()))
    reactor.callLater(0.6, reactor.stop)
    if sys.argv[1] == "asyncio":
        loop.call_later(0.2, lambda: tasks.append(loop.create_task(serve_in_task())))
    else:
        reactor.callLater(0.2, copy_context().run, serve)


tasks = []
reactor.callLater(0.1, begin)
reactor.run()
print(*seen)
PY
epoll=$("$folder/venv/bin/python" "$folder/seen.py" epoll)
asyncio=$("$folder/venv/bin/python" "$folder/seen.py" asyncio)
printf 'a call of the outer context sees: %s (epoll), %s (asyncio)\n' "$epoll" "$asyncio"
[ "$epoll" = none ]
[ "$asyncio" = "of a request" ]
