#!/usr/bin/env bash
# Django: receivers that Signal.asend() and asend_robust() call do not see the exception that the sender is handling.
#
# Guess: a receiver sees the same with "await signal.asend(...)" as with "signal.send(...)": in an "except" block
# sys.exc_info() has the exception, which logging.exception() and exc_info=True take.
# Seen (Django 5.2.16, asgiref 3.13.0): asend() runs the receivers in tasks of their own, in which no exception is being handled:
# sys.exc_info() is (None, None, None), and a log entry has "NoneType: None" for the traceback.
# "await sync_to_async(signal.send)(...)" shows the exception, as asgiref carries it into the thread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install django==5.2.16 asgiref==3.13.0
"$folder/venv/bin/python" - <<'PY'
import asyncio
import sys

import django
from asgiref.sync import sync_to_async
from django.dispatch import Signal

failed = Signal()
seen = []


def note(**_):
    seen.append(sys.exc_info()[0])


async def note_in_coroutine(**_):
    seen.append(sys.exc_info()[0])


failed_here = Signal()
failed.connect(note)
failed.connect(note_in_coroutine)
failed_here.connect(note)


async def main():
    try:
        raise ValueError
    except ValueError:
        await failed.asend(None)
        await failed.asend_robust(None)
        await sync_to_async(failed_here.send)(None)
        failed_here.send(None)


asyncio.run(main())
print(django.__version__, seen)
assert seen == [None, None, None, None, ValueError, ValueError], seen
PY
