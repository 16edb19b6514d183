#!/usr/bin/env bash
# asgiref, Django: under asyncio.run(), "thread-sensitive" code runs in another thread than the caller's.
#
# Guess: sync_to_async(thread_sensitive=True), which all of Django's asynchronous methods of models use, runs its function
# in the main thread, or in that of whoever started the loop; so a coroutine that a test runs by asyncio.run() inside of
# atomic() sees the rows of that block.
# Seen (asgiref 3.13.0, Django 5.2.16): with asyncio.run() the function runs in a thread of its own, on another
# connection: the row of the open block is not there, and no error says so. With async_to_sync() of the same coroutine
# function it runs in the caller's thread, and the row is there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install django==5.2.16 asgiref==3.13.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import asyncio
import threading

import django
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db"}})
django.setup()

from django.db import connection, models, transaction


class Row(models.Model):
    class Meta:
        app_label = "rows"


async def look():
    return await sync_to_async(threading.get_ident)() == threading.main_thread().ident, await Row.objects.acount()


with connection.schema_editor() as editor:
    editor.create_model(Row)
with transaction.atomic():
    Row.objects.create()
    by_run, by_asgiref = asyncio.run(look()), async_to_sync(look)()
print(django.__version__, "in the caller's thread, rows:", by_run, by_asgiref)
assert by_run == (False, 0), by_run
assert by_asgiref == (True, 1), by_asgiref
PY
