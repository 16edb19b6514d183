"""Runs an example: a database, a node, the application, and a tour through it.

``python -m examples NAME`` uses an embedded PostgreSQL server, or the database of TXQUEUE_DSN.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import IO, Final, NoReturn

from attrs import field, frozen

from txqueue.embedded import EmbeddedServer

ROOT: Final = Path(__file__).resolve().parents[1]
PROGRAMS: Final = Path(sys.executable).parent
CHECK_EVERY: Final = 0.1
LAST_LINES: Final = 20
# Where an example runs, for its processes and for the reader's own commands.
PLACE: Final = ("TXQUEUE_DSN", "TXQUEUE_NODE")
# Settings of another node of this host, whose addresses are in use.
OF_ANOTHER_NODE: Final = frozenset(
    f"TXQUEUE_{name}" for name in ("NODE", "HOST", "ADMIN", "LISTEN", "HEALTH", "METRICS", "WEB")
)


@frozen
class Example:
    """An application.

    Attributes:
        app: The module with its work, for ``twistd txqueue --app``.
        tour: The module that uses it, and its arguments.
        nodes: The options of each of its nodes.
        prepare: A command that makes its tables.
        web: The command of its web server.
        environment: Variables that all of its processes need.
    """

    app: str
    tour: str
    nodes: tuple[str, ...] = ("--queues default,mail",)
    prepare: tuple[str, ...] = ()
    web: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)


def system(name: str, *nodes: str) -> Example:
    """One of the five systems."""
    app = f"examples.systems.{name}"
    return Example(app, f"examples.systems {name}", nodes=nodes or ("",))


EXAMPLES: Final[Mapping[str, Example]] = MappingProxyType(
    {
        "twisted": Example("examples.twisted_shop.work", "examples.twisted_shop.tour"),
        "fastapi": Example(
            "examples.fastapi_shop.work",
            "examples.fastapi_shop.tour",
            web=("-m", "uvicorn", "examples.fastapi_shop.web:app", "--port", "8491"),
        ),
        "django": Example(
            "txqueue.django",
            "examples.django_shop.tour",
            prepare=("-m", "django", "migrate", "--run-syncdb", "--verbosity=0"),
            web=("-m", "django", "runserver", "--noreload", "8492"),
            environment={"DJANGO_SETTINGS_MODULE": "examples.django_shop.settings"},
        ),
        "calendar": system("calendar", "--listen tcp:8493", "--listen tcp:8494"),
        "tenants": system("tenants"),
        "scheduler": system("scheduler", "", "--queues heavy"),
        "recipes": system("recipes"),
        "sync": system("sync", "", ""),
    }
)


@contextmanager
def database() -> Iterator[str]:
    """The database of TXQUEUE_DSN, or one on a new embedded server."""
    with ExitStack() as stack:
        yield os.environ.get("TXQUEUE_DSN") or stack.enter_context(EmbeddedServer())


@frozen
class Stage:
    """The processes of an example.

    Attributes:
        folder: The folder of the node's files and of each background process's log.
        environment: The variables of all processes.
        background: The processes that run until the end, by the names of their logs.
    """

    folder: Path
    environment: Mapping[str, str]
    background: dict[str, "subprocess.Popen[bytes]"] = field(factory=dict)

    @contextmanager
    def running(
        self, *command: str, output: IO[bytes] | None = None
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """A process that is stopped at the end."""
        process = subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdout=output, stderr=output
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    @contextmanager
    def in_background(self, name: str, *command: str) -> Iterator[None]:
        """A process that must run until the end; its output goes to its log."""
        with self._log(name).open("wb") as log, self.running(*command, output=log) as process:
            self.background[name] = process
            yield

    def finish(self, *command: str) -> None:
        """Run a process to its end, or fail as soon as one of the background ends."""
        with self.running(*command) as process:
            while process.poll() is None:
                self.check()
                time.sleep(CHECK_EVERY)
        if process.returncode:
            self._fail(f"{' '.join(command)} failed", *self.background)

    def until_enter(self) -> None:
        """Wait for a line or the end of the input, or fail as soon as a process ends."""
        while not select([sys.stdin], [], [], CHECK_EVERY)[0]:
            self.check()

    def check(self) -> None:
        """Fail if a process of the background has ended."""
        for name, process in self.background.items():
            if process.poll() is not None:
                self._fail(f"the {name} ended with status {process.returncode}", name)

    def _fail(self, what: str, *names: str) -> NoReturn:
        sys.exit("\n".join([what, *map(self._last_lines, names)]))

    def _last_lines(self, name: str) -> str:
        lines = self._log(name).read_text("utf-8", "replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"--- the last lines of the {name}'s log:", *lines])

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@contextmanager
def stage(name: str) -> Iterator[Stage]:
    """A database, a temporary folder, and the environment of all processes of an example."""
    ours = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_NODE}
    with database() as dsn, TemporaryDirectory(prefix="txqueue-example-") as folder:
        place = {"TXQUEUE_DSN": dsn, "TXQUEUE_NODE": f"unix:{folder}/example-{name}.sock"}
        yield Stage(Path(folder), {**ours, **place, **EXAMPLES[name].environment})


def nodes_of(name: str, folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names and commands of nodes that run beside any other node of this host."""
    example = EXAMPLES[name]
    program = (f"{PROGRAMS}/twistd", "-n", "--pidfile=", "txqueue", f"--state-dir={folder}")
    for number, own in enumerate(example.nodes, 1):
        suffix = f"-{number}" if number > 1 else ""
        options = f"--app {example.app} --workers 1 --name example-{name}{suffix} {own}"
        yield f"node{suffix}", (*program, *options.split())


def run(name: str) -> None:
    """Run an example until Enter."""
    example = EXAMPLES[name]
    with stage(name) as its, ExitStack() as stack:
        its.finish(f"{PROGRAMS}/txqueue", "migrate")
        if example.prepare:
            its.finish(sys.executable, *example.prepare)
        for title, command in nodes_of(name, its.folder):
            stack.enter_context(its.in_background(title, *command))
        if example.web:
            stack.enter_context(its.in_background("web server", sys.executable, *example.web))
        its.finish(sys.executable, "-m", *example.tour.split())
        place = " ".join(f"{each}='{its.environment[each]}'" for each in PLACE)
        print(f"It runs on, with its logs in {its.folder}.")
        print(f"In another terminal: export {place}, then {PROGRAMS}/txqueue status")
        print("Enter stops it.", flush=True)
        its.until_enter()


if len(sys.argv) != 2 or sys.argv[1] not in EXAMPLES:
    sys.exit(f"usage: python -m examples {{{','.join(EXAMPLES)}}}")
run(sys.argv[1])
