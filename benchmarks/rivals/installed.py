"""Installs the rivals into a folder, each with a broker of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg2.extensions

from benchmarks.rivals.brief import BriefRival
from benchmarks.rivals.rival import LIMIT, PostgresBroker, RedisBroker, Rival, StepsRival
from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session

__all__ = ["OF_STEPS", "RIVALS", "VERSIONS", "rivals"]

HERE = Path(__file__).parent
VERSIONS = {
    "graphile-worker": "0.18.0",
    "pgqueuer": "1.6.0",
    "procrastinate": "3.10.0",
    "oban": "0.7.0",
    "celery": "5.7.0",
    "dbos": "3.4.0",
    "absurd": "0.5.0",
    "pgmq": "1.1.4",
}
OF_STEPS = ("dbos", "absurd")
"""Those whose jobs have durable steps, with which nothing else is measured."""
KINDS = {
    **dict.fromkeys(OF_STEPS, StepsRival),
    **dict.fromkeys(("graphile-worker", "pgqueuer", "pgmq"), BriefRival),
}
RIVALS = tuple(VERSIONS)
WAITING = {
    "graphile-worker": "select exists (select from graphile_worker._private_jobs)",
    "pgqueuer": "select exists (select from pgqueuer)",
    "procrastinate": "select exists (select from procrastinate_jobs"
    " where status in ('todo', 'doing'))",
    "oban": "select exists (select from oban_jobs where state not in ('completed', 'discarded'))",
    "dbos": "select exists (select from dbos.workflow_status"
    " where status not in ('SUCCESS', 'ERROR'))",
    "absurd": "select exists (select from absurd.t_steps where state <> 'completed')",
    "pgmq": "select exists (select from pgmq.q_jobs)",
}
NEEDS = {"oban": (3, 12)}
PACKAGES: dict[str, tuple[str, ...]] = {
    "pgqueuer": ("pgqueuer[asyncpg]",),
    "procrastinate": ("procrastinate",),
    "oban": ("oban",),
    "celery": ("celery[redis]",),
    "dbos": ("dbos",),
    "absurd": ("absurd-sdk", "absurdctl"),
    "pgmq": ("pgmq[async]",),
}


@contextmanager
def rivals(dsn: str, log: Path, folder: Path, names: Collection[str]) -> Iterator[dict[str, Rival]]:
    """Install some, and give each its database, or its Redis.

    Args:
        dsn: The server in which databases are made.
        log: The server's.
        folder: Where to install what is not there yet; it is the caller's to remove.
        names: Of RIVALS.
    """
    with ExitStack() as stack:
        yield {name: stack.enter_context(rival(name, dsn, log, folder)) for name in names}


@contextmanager
def rival(name: str, dsn: str, log: Path, there: Path) -> Iterator[Rival]:
    """Install one."""
    folder = there / f"{name}-{VERSIONS[name]}"
    folder.mkdir(exist_ok=True)
    command = INSTALL.get(name, installed_python)(name, folder)
    if name == "celery":
        with RedisBroker.started(folder) as redis:
            yield Rival(command, {**os.environ, "REDIS_SOCKET": str(redis.socket)}, redis)
        return
    database = name.replace("-", "_")
    with Session(dsn) as session:
        session.rows(f"create database {database}")
    place = psycopg2.extensions.parse_dsn(dsn)
    its_dsn = psycopg2.extensions.make_dsn(**{**place, "dbname": database})
    with Session(its_dsn) as session:
        broker = PostgresBroker(its_dsn, session, WAITING[name], log)
        kind = KINDS.get(name, Rival)
        yield kind(command, environment(place, database), broker)


def environment(there: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the environment in which clients find a database."""
    place = {"PGHOST": there["host"], "PGPORT": there.get("port", "5432"), "PGUSER": there["user"]}
    return {**os.environ, **place, "PGDATABASE": name}


def installed_node(name: str, folder: Path) -> tuple[str, ...]:
    """Install a package of npm; returns the command of the program beside it."""
    package = f"{name}@{VERSIONS[name]}"
    line = ["npm", "install", "--silent", "--prefix", folder, package]
    if not (folder / "node_modules" / name).exists():
        subprocess.run([*map(str, line)], check=True, timeout=LIMIT)
    program = folder / "graphile_worker.js"
    program.write_text((HERE / program.name).read_text())
    return "node", str(program)


def installed_python(name: str, folder: Path) -> tuple[str, ...]:
    """Install a package of Python; returns the command of its program."""
    python = folder / "venv" / "bin" / "python"
    command = str(python), str(HERE / f"with_{name}.py")
    if (done := folder / "installed").exists():
        return command
    subprocess.run([python_for(name), "-m", "venv", folder / "venv"], check=True, timeout=LIMIT)
    packages = [f"{package}=={VERSIONS[name]}" for package in PACKAGES[name]]
    line = [str(python), "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(line, check=True, timeout=LIMIT)
    done.touch()
    return command


def python_for(name: str) -> str:
    """Return a Python that is new enough for a package.

    Raises:
        TxqueueError: If there is none.
    """
    least = NEEDS.get(name, (3, 11))
    places = os.environ["PATH"].split(os.pathsep)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*map(Path, places), *versions.glob("*/bin")]
    there = (str(path) for folder in folders for path in pythons(folder))
    for python in (sys.executable, *there):
        check = f"import sys; sys.exit(sys.version_info < {least})"
        if not subprocess.run([python, "-c", check], capture_output=True, check=False).returncode:
            return python
    wanted = ".".join(map(str, least))
    raise TxqueueError(f"{name} needs Python {wanted} or newer", "install it, or leave it out")


def pythons(folder: Path) -> list[Path]:
    """Return the Pythons of a folder, the newest first."""
    return sorted(folder.glob("python3.[0-9][0-9]"), reverse=True)


INSTALL: dict[str, Callable[[str, Path], tuple[str, ...]]] = {"graphile-worker": installed_node}
