"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from txqueue.cli.output import notes
from txqueue.model.humanize import amount, rate

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task, TaskID
    from rich.text import Text

    from txqueue.bench.progress import Advance
    from txqueue.cli.options import GlobalOptions

__all__ = ["Bars", "bars"]


class Bars:
    """Progress bars, one for each stage of an operation.

    Args:
        progress: Draws the bars.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._current: TaskID | None = None

    def begin(self, name: str, total: int | None = None) -> Advance:
        """Begin a stage; the previous stage's bar stays on screen if that stage had a total."""
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
def bars(options: GlobalOptions) -> Iterator[Bars]:
    """Show the stages of a long operation as bars, if standard error is a terminal."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    out = notes(options)
    columns = (SpinnerColumn(finished_text=" "), TextColumn("{task.description}", markup=False))
    with Progress(
        *columns, BarColumn(), _column(), console=out, disable=not out.is_terminal
    ) as progress:
        yield Bars(progress)


def _column() -> ProgressColumn:
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Counts(ProgressColumn):
        """The column of a progress bar with the count, the total and the rate."""

        def render(self, task: Task) -> Text:
            return Text(_counts(task), style="dim")

    return Counts()


def _counts(task: Task) -> str:
    done, elapsed = int(task.completed), task.finished_time or task.elapsed or 0.0
    total = f" of {amount(int(task.total))}" if task.total is not None else ""
    if not done:
        return ""
    speed = f"  {rate(done / elapsed)}/s" if elapsed > 0 else ""
    return f"{amount(done)}{total}{speed}"
