"""Runs an example: a database, a node, the application, and a tour through it.

``python -m examples NAME`` uses an embedded PostgreSQL server, or the database of TXQUEUE_DSN.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from txqueue.embedded import EmbeddedServer

ROOT: Final = Path(__file__).resolve().parents[1]
PROGRAMS: Final = Path(sys.executable).parent


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


@contextmanager
def running(command: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[None]:
    """A process that is stopped at the end."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def run(example: Example) -> None:
    """Run an example until Enter."""
    with database() as dsn, ExitStack() as stack:
        environment = {**os.environ, "TXQUEUE_DSN": dsn, **example.environment}

        def python(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)

        subprocess.run([PROGRAMS / "txqueue", "migrate"], env=environment, check=True)
        if example.prepare:
            python(*example.prepare)
        node = f"-n --pidfile= txqueue --app {example.app} --queues default,mail --workers 1"
        stack.enter_context(running((f"{PROGRAMS}/twistd", *node.split()), environment))
        if example.web:
            stack.enter_context(running((sys.executable, *example.web), environment))
        python("-m", example.tour)
        print(f"It runs on. In another terminal: export TXQUEUE_DSN='{dsn}', then txqueue status")
        with suppress(EOFError):
            input("Enter stops it.\n")


if len(sys.argv) != 2 or sys.argv[1] not in EXAMPLES:
    sys.exit(f"usage: python -m examples {{{','.join(EXAMPLES)}}}")
run(EXAMPLES[sys.argv[1]])
