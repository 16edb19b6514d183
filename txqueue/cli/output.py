"""Prints results to standard output, and notes to standard error."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from txqueue.errors import AdminRefused
from txqueue.model.humanize import age, amount, duration, plain, state_word
from txqueue.model.operator_acts import ACTS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from txqueue.admin import Admin
    from txqueue.cli.options import GlobalOptions


_ESCAPE = "txqueue.escape"


def prepare_streams() -> None:
    """Let the output escape characters that its encoding lacks, and replace closed streams."""
    codecs.register_error(_ESCAPE, _escape_unencodable)
    # In this order: a file that is opened gets the lowest free number, that of the closed stream.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)


def discard_output() -> None:
    """Write what is left nowhere: the interpreter would report an error at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return characters as JSON escapes them, so that a document stays one."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


Lines = Iterator["RenderableType"]

# The JSON encoder escapes the control characters below a space.
_UNSEEN = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NO_WINDOW = 10_000
# Spaces between columns; characters from which on a column is wide enough to read folded cells in;
# and a width that no cell has.
_GAP, _READABLE, _WIDEST = 2, 16, 10_000
# Of how many characters names are left in a window that is too narrow for all.
_NAMES = (32, 24, 20, 16, 12)
BAR = 24
_COLOURS = {"done": "green", "failed": "bold red", "assigned": "cyan", "cancelled": "yellow"}


def console(options: GlobalOptions, *, stderr: bool = False) -> Console:
    """Return a console that prints text literally: no markup, no emoji codes."""
    from rich.console import Console

    styles: dict[str, Any] = {"color_system": None} if options.no_color else {}
    terminal = Console(stderr=stderr, markup=False, emoji=False, highlight=False, **styles)
    is_file = not terminal.is_terminal and "COLUMNS" not in os.environ
    if is_file or options.output == "wide":
        # Do not wrap or cut lines: programs may search them.
        terminal.width = NO_WINDOW
    return terminal


def notes(options: GlobalOptions) -> Console:
    """Return the console for notes, which writes to standard error."""
    return console(options, stderr=True)


def show(
    options: GlobalOptions,
    document: Mapping[str, Any],
    render: Callable[[], Iterable[RenderableType]],
) -> None:
    """Print a result, as JSON with --json, else as tables.

    Args:
        options: Choose the format.
        document: The result to print as JSON.
        render: Returns the result in printable form for people.
    """
    if options.json:
        from txqueue.policy.pagination import as_text

        is_seen = sys.stdout.isatty()
        # On a terminal, characters that control it or reverse its text are escaped.
        text = as_text(document, indent=2 if is_seen else None)
        print(_UNSEEN.sub(lambda seen: f"\\u{ord(seen[0]):04x}", text) if is_seen else text)
        return
    out = console(options)
    for line in render():
        out.print(line)


def show_list(
    options: GlobalOptions, document: Mapping[str, Any], title: str, columns: Columns, empty: str
) -> None:
    """Print a result whose first value is a list: for people as a table, see `listing`."""
    [rows, *_] = document.values()
    show(options, document, lambda: listing(title, columns, rows, empty))


def say(options: GlobalOptions, document: Mapping[str, Any], sentence: str) -> None:
    """Print a result: as JSON if asked to, else as one sentence."""
    show(options, document, lambda: [styled(sentence)])


def show_act(options: GlobalOptions, act: str, subject: str, document: Mapping[str, Any]) -> None:
    """Print whether an act has changed its subject, as the document says, and how to undo it."""
    say(options, document, ACTS[act].told(subject, is_changed=document["changed"]))
    note_undo(options, document.get("act"))


def note(options: GlobalOptions, text: str) -> None:
    """Print a note for people; with --json, print nothing."""
    if not options.json:
        notes(options).print(styled(text, "dim"), soft_wrap=True)


def note_undo(options: GlobalOptions, *acts: int | None) -> None:
    """Note how to take back acts, given by number; None for one that has no undo."""
    numbers = [act for act in acts if act is not None]
    if numbers:
        note(options, f"undo: txqueue undo {' '.join(map(str, numbers))}")


def styled(text: object, style: str = "") -> Text:
    """Return text in a style, with its control characters made harmless."""
    from rich.text import Text

    return Text(plain(text), style=style)


def job_state(state: str, text: str | None = None) -> Text:
    """Return the state of a job, or a text about it, in the colour of the state."""
    return styled(state_word(state) if text is None else text, _COLOURS.get(state, ""))


def local_time(moment: datetime) -> str:
    """Return a timestamp as text, in the time zone of this host."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def bar(done: float, total: float) -> Text:
    """Return a progress bar as text."""
    part = min(1.0, max(0.0, done / total)) if total else 1.0
    full = int(BAR * part)
    drawn = "█" * full + "░" * (BAR - full)
    return styled(f"{drawn} {int(100 * part):3d} %", "cyan")


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> RenderableType:
    """Return a table: whole if the window has room, else with short names, else a block each row.

    Args:
        title: The title above the table.
        columns: The columns' heads; a column whose head starts with ``>`` is right-aligned.
        rows: The cells of each row: texts or rich renderables.
    """
    return _Fitting(title, list(columns), [[_cell(value) for value in row] for row in rows])


@frozen
class _Fitting:
    """A table, or its rows as blocks where the window would break the cells into pieces.

    Args:
        title: The title.
        heads: The columns' heads.
        cells: The cells of each row.
    """

    _title: str
    _heads: Sequence[str]
    _cells: Sequence[Sequence[RenderableType]]

    def __rich_console__(
        self, terminal: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield what fits."""
        grid, width = _grid(self._title, self._heads, self._cells), options.max_width
        if width < _READABLE:
            yield grid
            return
        for table_to_fit in (grid, *map(self._shortened, _NAMES)):
            if _width(table_to_fit, terminal, options) <= width:
                yield table_to_fit
                return
        yield grid.title or ""
        for row in self._cells:
            # A column without a head is a drawing beside another one.
            yield _pairs(pair for pair in zip(self._heads, row, strict=False) if pair[0])
            yield ""

    def _shortened(self, longest: int) -> Table:
        """Return the table with short names, and without the columns that have no value."""
        columns = zip(self._heads, *self._cells, strict=False)
        used = [each for each in columns if any(str(cell) != "-" for cell in each[1:])]
        heads, *rows = zip(*used, strict=True)
        # The first column has what people copy most.
        lengths = [_NAMES[0], *[longest] * len(heads)]
        short = [[*map(_short, row, lengths)] for row in rows]
        grid = _grid(self._title, heads, short)
        grid.caption, grid.caption_justify = styled("-o wide shows all of it", "dim"), "left"
        return grid


def _width(grid: Table, terminal: Console, options: ConsoleOptions) -> int:
    """Return the width at which no word is broken, and no cell needs more than two lines."""
    from rich.measure import measure_renderables

    total = _GAP * (len(grid.columns) - 1)
    for column in grid.columns:
        cells = [column.header, *column.cells]
        measured = measure_renderables(terminal, options.update(width=_WIDEST), cells)
        folded = max(measured.minimum, (measured.maximum + 1) // 2)
        total += measured.maximum if column.no_wrap else folded
    return total


def _short(cell: RenderableType, longest: int) -> RenderableType:
    """Return a long name without its middle; anything else as it is."""
    from rich.text import Text

    if not isinstance(cell, Text) or len(cell) <= longest or " " in cell.plain:
        return cell
    half = longest // 2
    return cell[:half].append("…").append_text(cell[half + 1 - longest :])


def _cell(value: object) -> RenderableType:
    # A text may have control characters.
    return value if hasattr(value, "__rich_console__") else styled(value)


def _grid(title: str, heads: Sequence[str], rows: Sequence[Sequence[RenderableType]]) -> Table:
    from rich.table import Table

    grid = Table(title=styled(title, "bold"), title_justify="left", box=None, pad_edge=False)
    grid.header_style = "dim"
    grid.padding = (0, _GAP, 0, 0)
    for place, head in enumerate(heads):
        justify: Any = "right" if head.startswith(">") else "left"
        # Keep names whole: people copy them. Only sentences are folded.
        is_whole = place == 0 or not any(" " in str(row[place]) for row in rows)
        grid.add_column(head.lstrip(">"), justify=justify, overflow="fold", no_wrap=is_whole)
    for row in rows:
        grid.add_row(*row)
    return grid


Columns = Mapping[str, "str | Callable[[Any], object]"]
"""The columns of a table by their heads: the name of a row's value, or what makes it of the row."""


def listing(title: str, columns: Columns, rows: Iterable[Any], empty: str = "") -> Lines:
    """Yield a table, or the sentence `empty` if there are no rows; see `table`.

    A dash stands for no value.
    """
    lines = [[_value(row, cell) for cell in columns.values()] for row in rows]
    yield table(title, columns, lines) if lines else styled(empty)


def _shown_by(text: Callable[[Any], str]) -> Callable[[str], Callable[[Any], object]]:
    """Return what makes, of a name, what makes the cell of a row's value of that name."""
    return lambda name: lambda row: None if row[name] is None else text(row[name])


amount_of, duration_of, age_of = map(_shown_by, (amount, duration, age))
"""Make the cells of columns of numbers, of exact lengths of time and of rough ones."""


def _value(row: Any, cell: str | Callable[[Any], object]) -> object:
    value = row[cell] if isinstance(cell, str) else cell(row)
    return "-" if value in (None, "") else value


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return a table of names and values; None and an empty text are left out."""
    return _pairs((name, _cell(value)) for name, value in pairs if value not in (None, ""))


def _pairs(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    named = [[styled(name.lstrip(">"), "dim"), value] for name, value in pairs]
    grid = _grid("", ["name", "value"], named)
    grid.columns[1].no_wrap = False
    grid.title, grid.show_header = None, False
    return grid


_LISTED = 10


async def refusals(
    admin: Admin,
    act: str,
    refused: Sequence[int],
    errors: Mapping[int, AdminRefused] | None = None,
) -> list[dict[str, Any]]:
    """Return why an act was refused for the first of some jobs, for the key ``reasons``.

    Args:
        admin: The link to the node.
        act: The name of the act.
        refused: The numbers of the jobs.
        errors: What the node has said about some of them.
    """
    from txqueue.policy.findings.explanation import EXPLAINED, Explanation, explain_refusal

    reasons = []
    for job_id in refused[:EXPLAINED]:
        try:
            if errors and job_id in errors:
                raise errors[job_id]
            why = explain_refusal(act, await admin.explain(job_id))
        except AdminRefused as error:
            why = Explanation(job_id, "", "unknown", error.what, error.remedy)
        reasons.append(asdict(why))
    return reasons


def refusal_lines(reasons: Sequence[Mapping[str, Any]]) -> Lines:
    """Yield the first of the reasons for people."""
    from txqueue.policy.findings.explanation import Explanation, refusal_text

    for why in reasons[:_LISTED]:
        yield styled(refusal_text(Explanation(**why)))
