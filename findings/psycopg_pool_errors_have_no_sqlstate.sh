#!/usr/bin/env bash
# psycopg_pool: PoolClosed and PoolTimeout are OperationalErrors without an SQLSTATE, as a lost connection's error is.
#
# Guess: an OperationalError without an SQLSTATE means that the server or the network is away, so that a program should wait
# and try again.
# Seen (psycopg 3.3.9, psycopg-pool 3.3.3): a pool that was closed, and one whose connections are all in use, raise errors that
# are psycopg.OperationalError with sqlstate None. A program that tries such errors again does so for ever on a closed pool,
# and blames the database where its own pool is too small. Their classes tell them apart; they are in psycopg_pool, not in
# psycopg.errors. No server is needed to see it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install "psycopg[binary]==3.3.9" psycopg-pool==3.3.3
"$folder/venv/bin/python" - "$folder" <<'PY'
import logging
import sys

import psycopg
import psycopg_pool

logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
nowhere = f"host={sys.argv[1]}"


def error_of(call):
    try:
        call()
    except psycopg.Error as error:
        return type(error).__name__, isinstance(error, psycopg.OperationalError), error.sqlstate


lost = error_of(lambda: psycopg.connect(nowhere))
pool = psycopg_pool.ConnectionPool(nowhere, min_size=0, max_size=1, open=True)
timeout = error_of(lambda: pool.getconn(timeout=0.1))
pool.close()
closed = error_of(pool.getconn)
print(psycopg.__version__, psycopg_pool.__version__, lost, timeout, closed)
assert lost == ("OperationalError", True, None), lost
assert timeout == ("PoolTimeout", True, None), timeout
assert closed == ("PoolClosed", True, None), closed
PY
