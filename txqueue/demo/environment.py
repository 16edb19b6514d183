"""Provides a temporary schema on an embedded server, and shows how far a long operation is."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


Advance = Callable[[int], None]
"""A function that shows how much of a stage is done, in the unit of the stage's total."""


@define
class Pace:
    """Spaces out the repetitions of a query so that they cost the server little.

    Args:
        least: The shortest interval between two queries, in seconds.
        share: The largest fraction of time that the query may take.
        most: The longest interval in seconds, whatever the queries cost.
    """

    _least: float = 0.2
    _share: float = 0.02
    _most: float = 2.0
    _asked_at: float = field(factory=time.monotonic, init=False)

    def asking(self) -> None:
        """Note that the query starts now."""
        self._asked_at = time.monotonic()

    def rest(self) -> None:
        """Sleep until the next query is due."""
        took = time.monotonic() - self._asked_at
        time.sleep(min(max(self._least, took / self._share), self._most))


@define
class Stages:
    """Shows the stages of an operation one after the other, each with a bar for its progress.

    Args:
        progress: Draws the bars.
    """

    _progress: Progress
    _current: TaskID | None = field(default=None, init=False)

    def begin(self, name: str, total: int | None = None) -> Advance:
        """Begin a stage, which ends the one before; the bar of one with a total stays on screen.

        Args:
            name: The stage's name.
            total: How much the stage has to do, for instance how many jobs; None if unknown.
        """
        self._end()
        current = self._current = self._progress.add_task(name, total=total)
        return lambda done: self._progress.update(current, completed=done)

    def _end(self) -> None:
        if self._current is None:
            return
        last = next(task for task in self._progress.tasks if task.id == self._current)
        if last.total is None:
            self._progress.remove_task(self._current)
        else:
            self._progress.stop_task(self._current)


@contextmanager
def bars(out: Console | None = None) -> Iterator[Stages]:
    """Show the stages of a long operation as bars, if the output is a terminal.

    Args:
        out: Where the bars are drawn; by default standard error.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    out = out or Console(stderr=True)
    columns = (SpinnerColumn(finished_text=" "), TextColumn("{task.description}", markup=False))
    with Progress(
        *columns, BarColumn(), TaskProgressColumn(), console=out, disable=not out.is_terminal
    ) as progress:
        yield Stages(progress)


@frozen
class TemporarySchema:
    """A fresh schema to try or measure txqueue in.

    Attributes:
        dsn: The DSN of the database.
        schema: The schema's name.
        folder: A temporary folder for files, deleted at the end.
    """

    dsn: str = field(repr=False)
    schema: str
    folder: Path

    def session(self) -> Session:
        """Open a connection."""
        return Session(self.dsn, self.schema, "txqueue demo")

    def facts(self) -> dict[str, Any]:
        """Return what every result says about the environment, such as versions."""
        with self.session() as session:
            names = ("synchronous_commit", "fsync")
            settings = {name: session.value(f"show {name}") for name in names}
            server = str(session.value("show server_version")).split()[0]
        return {"postgres": server, "txqueue": version("txqueue"), **settings}


@contextmanager
def embedded_schema(stages: Stages) -> Iterator[TemporarySchema]:
    """Run a fresh embedded server, and delete it at the end.

    Args:
        stages: Shows the progress.

    Yields:
        The schema.

    Raises:
        EmbeddedUnavailable: When the server's programs are missing, or it cannot be started.
    """
    from txqueue.embedded import EmbeddedServer

    stages.begin("starting PostgreSQL")
    with EmbeddedServer() as dsn, temporary_folder() as folder:
        migrate(dsn)
        yield TemporarySchema(dsn, "txqueue", folder)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder, and delete it at the end."""
    with tempfile.TemporaryDirectory(prefix="txqueue-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)
