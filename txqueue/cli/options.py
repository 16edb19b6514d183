"""The options that every command takes, before or after its name; lengths of time and moments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import reduce
from inspect import cleandoc
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define

from txqueue.errors import TxqueueError
from txqueue.model.humanize import length_of, moment_of, state_word

if TYPE_CHECKING:
    from txqueue.system.settings import ConfiguredDsn, Settings


Decorator = Callable[[Any], Any]
# The columns by which options select jobs.
JOB_COLUMNS = ("queue", "work_type", "group", "tenant")


@define
class GlobalOptions:
    """The values of the options that every command takes.

    Attributes:
        dsn: The database, when the command line names it.
        schema: The schema, when the command line names it.
        node: The admin endpoint of a node, when the command line names it.
        why: Why an act is carried out, which is recorded with it.
        json: Whether to print JSON instead of tables.
        output: ``wide`` to show names and lines whole, however wide the window is.
        no_color: Whether to print without colours.
        debug: Whether an error shows its traceback.
    """

    dsn: str | None = None
    schema: str | None = None
    node: str | None = None
    why: str | None = None
    json: bool = False
    output: str | None = None
    no_color: bool = False
    debug: bool = False

    @property
    def settings(self) -> Settings:
        """The settings: from flags, the environment, the file, or else libpq's variables."""
        from txqueue.system.settings import Settings

        flags = {"dsn": self.dsn, "schema": self.schema, "node": self.node}
        return Settings(flags, os.environ, Path.cwd())

    @property
    def chosen_dsn(self) -> ConfiguredDsn:
        """The DSN to use; empty to use libpq's variables."""
        return self.settings.dsn()

    @property
    def chosen_schema(self) -> str:
        """The schema to use."""
        return str(self.settings.get("schema", "txqueue"))


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Store an option given after the command; if none is, keep the one given before it."""
    options = context.ensure_object(GlobalOptions)
    if value and parameter.name is not None:
        setattr(options, parameter.name, value)


def _option(name: str, text: str, metavar: str | None = None) -> click.Option:
    """Return an option; a flag without a name for its value."""
    return click.Option(
        [name],
        expose_value=False,
        callback=_keep,
        help=text,
        metavar=metavar,
        is_flag=metavar is None,
    )


def options_of_every_command() -> list[click.Option]:
    """Return the options that each command takes."""
    return [
        _option("--dsn", "The database; TXQUEUE_DSN keeps it out of ps.", "DSN"),
        _option("--schema", "The schema that has the tables (default: txqueue).", "NAME"),
        _option("--node", "Send requests to the node at this admin endpoint.", "ENDPOINT"),
        _option("--why", "Why you act: recorded with each act.", "TEXT"),
        _option("--json", "Print one JSON document."),
        click.Option(
            ["-o", "--output"],
            type=click.Choice(["wide"]),
            expose_value=False,
            callback=_keep,
            help="Show names and lines whole in a narrow window.",
        ),
        _option("--no-color", "Print without colours."),
        _option("--debug", "Show the traceback of an error."),
    ]


class Command(click.Command):
    """A command that takes the options of every command, and shows the examples of its docstring.

    Attributes:
        examples: Command lines without the first word: the lines below ``Examples:``.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        text, _, examples = cleandoc(settings.get("help") or "").partition("\n\nExamples:\n")
        super().__init__(*arguments, **{**settings, "help": text})
        self.examples = [line.strip() for line in examples.splitlines()]
        # Of types, --schema is another one; before the command's name it is that of the tables.
        own = {flag for option in self.params for flag in option.opts}
        self.params += [each for each in options_of_every_command() if own.isdisjoint(each.opts)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, whose lines stay whole, to be copied; then the options."""
        if self.examples:
            with formatter.section("Examples"):
                for words in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}txqueue {words}\n")
        # The command's own options come first.
        records: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # The usage line shows the arguments.
            if record is not None and record[1]:
                records[parameter.callback is not _keep].append(record)
        for title, own in (("Options", True), ("Options of every command", False)):
            if records[own]:
                with formatter.section(title):
                    formatter.write_dl(records[own])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error names its options as the command line has them."""
        try:
            return super().invoke(ctx)
        except TxqueueError as error:
            error.what, error.remedy = self._as_written(error.what), self._as_written(error.remedy)
            error.args = (error.what, error.remedy)
            raise

    def _as_written(self, text: str) -> str:
        for each in self.params:
            if "_" in (each.name or ""):
                written = (
                    each.opts[0] if isinstance(each, click.Option) else each.human_readable_name
                )
                text = re.sub(rf"(?<![\w.-]){each.name}(?![\w.])", written, text)
        return text


def command(
    name: str | None = None, within: click.Group | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command, which gets the `GlobalOptions` as its first argument.

    Args:
        name: The name of the command; that of the function if None.
        within: The group that has the command.
    """
    register: Any = click.command if within is None else within.command

    def made(function: Callable[..., Any]) -> click.Command:
        got: click.Command = register(name, cls=Command)(click.pass_obj(function))
        return got

    return made


class Group(Command, click.Group):
    """A group of commands that all take the options of every command."""

    command_class = Command
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, or the error with the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Imported late, as in the next function.
            from txqueue.model.names_elsewhere import command_elsewhere

            if ctx.parent is None and (said := command_elsewhere(args[0])):
                raise click.UsageError(f"No such command '{args[0]}': {said}", ctx) from None
            near = self._nearest(ctx, args[0])
            # click itself may know the names, from 8.4 on.
            if not near or getattr(error, "possibilities", None):
                raise
            text = f"{error.message.rstrip('.')}, did you mean {near[0]}?"
            raise click.UsageError(text, ctx) from None

    def _nearest(self, ctx: click.Context, name: str) -> list[str]:
        """Return the command that a wrong name may mean: `schedule list` means `schedules`."""
        from difflib import get_close_matches

        root = ctx.find_root()
        listing = f"{ctx.info_name}s"
        if name == "list" and isinstance(root.command, click.Group):
            return [f"txqueue {listing}"] if listing in root.command.list_commands(root) else []
        return get_close_matches(name, self.list_commands(ctx), 1)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the names in the order in which the commands were added."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the commands, the examples, then the help of the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


class Finite(click.FloatRange):
    """A number in a range; `float` and click take those, too, that are none: nan and inf."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class StateOf(click.Choice):  # type: ignore[type-arg]  # It takes none in click 8.1.
    """One of some states, by the words that people read.

    In place of a name that others have, the error has the state's.
    """

    def __init__(self, states: Sequence[str]) -> None:
        super().__init__([state_word(state) for state in states])
        self._states = dict(zip(self.choices, states, strict=True))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the state."""
        from txqueue.model.names_elsewhere import state_elsewhere

        try:
            word: str = super().convert(state_word(value), param, ctx)
        except click.BadParameter:
            said = state_elsewhere(value).replace("assigned", state_word("assigned"))
            if said.removeprefix("write ") not in self.choices:
                raise
            self.fail(f"{value!r} is no state here: {said}.", param, ctx)
        return str(self._states[word])


def known_names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes a name in a shell: of a queue, work type, group, tenant or node."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
        from txqueue.cli.source import read_database
        from txqueue.store.reads.job_search import about_known_names

        # A shell has no place for an error.
        with suppress(TxqueueError):
            options = context.ensure_object(GlobalOptions)
            known = read_database(options, about_known_names, kind, begun)
            return [name for name in known if name.startswith(begun)]
        return []

    return complete


def valued(flag: str, metavar: str, text: str, name: str | None = None) -> Decorator:
    """Give a command an option that is a text; `name` is that of its argument, if it is another."""
    return click.option(flag, *filter(None, [name]), metavar=metavar, help=text)


def limited(
    default: int = 20, most: int = 10_000, text: str = "List at most this many."
) -> Decorator:
    """Give a command the option ``--limit``."""
    kind = click.IntRange(1, most)
    return click.option("--limit", type=kind, default=default, show_default=True, help=text)


def selecting(*columns: str, what: str = "jobs", states: Sequence[str] = ()) -> Decorator:
    """Give a command options that select rows by columns, and by one of the states, if any."""
    kind = StateOf(states)
    state = [click.option("--state", type=kind, help=f"Only {what} in this state.")]
    return together(*state * bool(states), *(_selects(column, what) for column in columns))


def on_node() -> Decorator:
    """Give a command the option that selects jobs by their node."""
    # Not `node`, which every command has: where to send its request.
    text, complete = "Only jobs that this node has or had.", known_names("node")
    return click.option("--on", "on_node", metavar="NODE", help=text, shell_complete=complete)


def searching() -> Decorator:
    """Give a command the options that select jobs by what no index serves."""
    when = "2026-11-22T13:00Z, or 2h for two hours ago"
    payload = "Only jobs with this in their payload; repeatable."
    waits = "Only jobs that wait for this: signal, signal=NAME, sleep, call, group and so on."
    tag = "Only jobs with this tag; repeatable."
    return together(
        _filter("--tag", "NAME[=VALUE]", tag, "read_tag_filter"),
        _filter("--payload", "KEY=VALUE", payload, "read_payload_filter"),
        valued("--error", "TEXT", "Only jobs with this in their last error."),
        _filter("--waiting-for", "WHAT", waits, "read_wait_filter"),
        _filter("--since", "WHEN", f"Only jobs enqueued since then: {when}."),
        _filter("--until", "WHEN", "Only jobs enqueued before; same format."),
        _filter("--updated-since", "WHEN", "Only jobs changed since; same format."),
    )


def _filter(flag: str, metavar: str, text: str, read: str = "read_time") -> Decorator:
    """Give a command a filter, checked here, whether a node or the database is to read it."""

    def check(_: click.Context, __: click.Parameter, value: Any) -> Any:
        from txqueue.model import job_filters

        for each in (value,) if isinstance(value, str) else value or ():
            getattr(job_filters, read)(each)
        return None if value == () else value

    is_repeatable = text.endswith("repeatable.")
    return click.option(flag, metavar=metavar, multiple=is_repeatable, callback=check, help=text)


def together(*decorators: Decorator) -> Decorator:
    """Combine decorators into one that gives a command the parameters of all, in this order."""
    return lambda function: reduce(
        lambda command, decorator: decorator(command), reversed(decorators), function
    )


def _selects(column: str, what: str) -> Decorator:
    text = f"Only {what} of this {column.replace('_', ' ')}."
    flag, complete = f"--{column.removeprefix('work_')}", known_names(column)
    return click.option(flag, column, help=text, shell_complete=complete)


class Read(click.ParamType):  # type: ignore[type-arg]  # It takes none in click 8.1.
    """What a function reads of a text; the message of its ValueError is shown.

    Args:
        name: What stands for the value in the help.
        read: The function.
    """

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the function has read."""
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


LENGTH = Read("length", length_of)
SECONDS = Read("length", lambda text: length_of(text).total_seconds())


def moment_option(flag: str, name: str, text: str, metavar: str = "WHEN") -> Decorator:
    """Give a command an option that is a moment; see `moment_of`."""
    return click.option(flag, name, metavar=metavar, type=Read("when", moment_of), help=text)


def zoned(text: str) -> str:
    """Read a date and time; it needs an offset, as hosts have different time zones."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        said = f"{text!r} is not a moment; write it like 2030-01-31T12:00:00Z"
        raise ValueError(said) from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; add Z or an offset such as +02:00")
    return moment.isoformat()
