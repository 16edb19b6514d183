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
# Settings of another node of this host, whose addresses are in use.
OF_ANOTHER_NODE: Final = frozenset(
    f"TXQUEUE_{name}" for name in ("NODE", "HOST", "ADMIN", "LISTEN", "HEALTH", "METRICS", "WEB")
)


@frozen
class Example:
    """An application.

    Attributes:
        app: The module with its work, for ``twistd txqueue --app``.
        tour: The module that uses it.
        prepare: A command that makes its tables.
        web: The command of its web server.
        environment: Variables that all of its processes need.
    """

    app: str
    tour: str
    prepare: tuple[str, ...] = ()
    web: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)


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
def stage(example: Example) -> Iterator[Stage]:
    """A database, a temporary folder, and the environment of all processes."""
    ours = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_NODE}
    with database() as dsn, TemporaryDirectory(prefix="txqueue-example-") as folder:
        yield Stage(Path(folder), {**ours, "TXQUEUE_DSN": dsn, **example.environment})


def node_of(name: str, folder: Path) -> tuple[str, ...]:
    """The command of a node that runs beside any other node of this host."""
    options = f"--app {EXAMPLES[name].app} --queues default,mail --workers 1 --name example-{name}"
    program = (f"{PROGRAMS}/twistd", "-n", "--pidfile=", "txqueue")
    return (*program, *options.split(), f"--state-dir={folder}")


def run(name: str) -> None:
    """Run an example until Enter."""
    example = EXAMPLES[name]
    with stage(example) as its, ExitStack() as stack:
        its.finish(f"{PROGRAMS}/txqueue", "migrate")
        if example.prepare:
            its.finish(sys.executable, *example.prepare)
        stack.enter_context(its.in_background("node", *node_of(name, its.folder)))
        if example.web:
            stack.enter_context(its.in_background("web server", sys.executable, *example.web))
        its.finish(sys.executable, "-m", example.tour)
        dsn = its.environment["TXQUEUE_DSN"]
        print(f"It runs on, with its logs in {its.folder}.")
        print(f"In another terminal: export TXQUEUE_DSN='{dsn}', then txqueue status")
        print("Enter stops it.", flush=True)
        its.until_enter()


if len(sys.argv) != 2 or sys.argv[1] not in EXAMPLES:
    sys.exit(f"usage: python -m examples {{{','.join(EXAMPLES)}}}")
run(sys.argv[1])
