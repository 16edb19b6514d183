"""Installs the rivals into a folder, each with a broker of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg2.extensions

from benchmarks.rivals.rival import LIMIT, PostgresBroker, RedisBroker, Rival
from txqueue.store.inquiries.reader import Session

__all__ = ["RIVALS", "VERSIONS", "rivals"]

HERE = Path(__file__).parent
VERSIONS = {
    "graphile-worker": "0.18.0",
    "pgqueuer": "1.6.0",
    "procrastinate": "3.10.0",
    "celery": "5.7.0",
}
RIVALS = tuple(VERSIONS)
WAITING = {
    "graphile-worker": "select exists (select from graphile_worker._private_jobs)",
    "pgqueuer": "select exists (select from pgqueuer)",
    "procrastinate": "select exists (select from procrastinate_jobs"
    " where status in ('todo', 'doing'))",
}
PACKAGES = {
    "pgqueuer": "pgqueuer[asyncpg]",
    "procrastinate": "procrastinate",
    "celery": "celery[redis]",
}


@contextmanager
def rivals(dsn: str, folder: Path, names: Collection[str]) -> Iterator[dict[str, Rival]]:
    """Install some, and give each its database, or its Redis.

    Args:
        dsn: The server in which databases are made.
        folder: Where to install; it is the caller's to remove.
        names: Of RIVALS.
    """
    with ExitStack() as stack:
        yield {name: stack.enter_context(rival(name, dsn, folder / name)) for name in names}


@contextmanager
def rival(name: str, dsn: str, folder: Path) -> Iterator[Rival]:
    """Install one."""
    folder.mkdir()
    command = INSTALL.get(name, installed_python)(name, folder)
    if name == "celery":
        with RedisBroker.started(folder) as redis:
            yield Rival(command, {**os.environ, "REDIS_SOCKET": str(redis.socket)}, redis)
        return
    database = name.replace("-", "_")
    with Session(dsn) as session:
        session.rows(f"create database {database}")
    there = psycopg2.extensions.parse_dsn(dsn)
    with Session(psycopg2.extensions.make_dsn(**{**there, "dbname": database})) as session:
        broker = PostgresBroker(session, WAITING[name])
        yield Rival(command, environment(there, database), broker)


def environment(there: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the environment in which clients find a database."""
    place = {"PGHOST": there["host"], "PGPORT": there.get("port", "5432"), "PGUSER": there["user"]}
    return {**os.environ, **place, "PGDATABASE": name}


def installed_node(name: str, folder: Path) -> tuple[str, ...]:
    """Install a package of npm; returns the command of the program beside it."""
    package = f"{name}@{VERSIONS[name]}"
    subprocess.run(
        ["npm", "install", "--silent", "--prefix", folder, package], check=True, timeout=LIMIT
    )
    program = folder / "graphile_worker.js"
    program.write_text((HERE / program.name).read_text())
    return "node", str(program)


def installed_python(name: str, folder: Path) -> tuple[str, ...]:
    """Install a package of Python; returns the command of its program."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=LIMIT)
    python = folder / "venv" / "bin" / "python"
    package = f"{PACKAGES[name]}=={VERSIONS[name]}"
    subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True, timeout=LIMIT)
    return str(python), str(HERE / f"with_{name}.py")


INSTALL: dict[str, Callable[[str, Path], tuple[str, ...]]] = {"graphile-worker": installed_node}
