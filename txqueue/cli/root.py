"""The command `txqueue`: its subcommands, those of the laboratory too, exit status and error
output.
"""

from __future__ import annotations

import errno
import json
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn

import click

from txqueue.cli.options import Command, GlobalOptions, Group, command
from txqueue.cli.output import discard_output, prepare_streams
from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.model.operator_acts import WORDS

INSTALL = "pip install . ./laboratory, in a checkout of txqueue"
_LABORATORY = ("bench", "torture")


def _installed_command(name: str) -> click.Command:
    package = f"txqueue_{name}"
    try:
        command: click.Command = getattr(import_module(f"{package}.command"), name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return _absent(name)
    return command


def _absent(name: str) -> click.Command:
    @click.command(
        name,
        cls=Command,
        help=f"Not installed: it is part of txqueue-torture. Run: {INSTALL}",
        short_help=f"Not installed; {INSTALL}.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("words", nargs=-1, metavar="...")
    def absent(words: tuple[str, ...]) -> None:  # noqa: ARG001 - any words give the same answer
        raise ConfigurationError(f"txqueue {name} is not installed", f"run: {INSTALL}")

    return absent


# What click calls its types.
_PLAIN: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
}
DONE, FAULT, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130


# The commands in the order of the help, by the module that has them.
_HOMES: Final = {
    "demo": "dev",
    "migrate": "deployment",
    **dict.fromkeys(("enqueue", "repeat"), "enqueue"),
    "status": "status",
    "health": "deployment",
    "nodes": "status",
    **dict.fromkeys(("jobs", "job", "explain"), "jobs"),
    **dict.fromkeys(("steps", "signal", "batch"), "steps"),
    "types": "types",
    "doctor": "doctor",
    **dict.fromkeys(("limits", "actions"), "queues"),
    **dict.fromkeys(("worksets", "tenants"), "status"),
    **dict.fromkeys(("schedules", "schedule"), "schedules"),
    **dict.fromkeys(("failures", "history", "stats", "archive"), "history"),
    **dict.fromkeys(WORDS, "job_actions"),
    "undo": "queues",
    "release": "queues",
    **dict.fromkeys(("pause", "resume", "limit", "drain", "undrain"), "queues"),
    **dict.fromkeys(("dev", "node"), "dev"),
    **dict.fromkeys(("web", "web-user", "mcp"), "web"),
    "certs": "deployment",
    "completion": "root",
}


@click.command("help", hidden=True)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_obj
def _help(options: GlobalOptions, words: tuple[str, ...]) -> None:
    """Show the help of a command, as --help does."""
    root.main([*words, "--help"], prog_name="txqueue", standalone_mode=False, obj=options)


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, _options: GlobalOptions, /, shell: str) -> None:
    """Print the script that completes commands.

    It completes commands, options, names of queues, types and nodes. For bash and zsh, add to the
    shell's start file: eval "$(txqueue completion bash)". Of fish it is the file
    ~/.config/fish/completions/txqueue.fish

    Examples:
        completion bash
        completion fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "txqueue", "_TXQUEUE_COMPLETE").source())


class Commands(Group):
    """The commands; the module of each is imported when it is used, as all take a while."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return all names, those of the laboratory last."""
        return [*_HOMES, *_LABORATORY]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        cmd_name: str,
    ) -> click.Command | None:
        """Return a command; None if there is none of that name."""
        if cmd_name == "help":
            return _help
        if cmd_name in _LABORATORY:
            return _installed_command(cmd_name)
        if cmd_name not in _HOMES:
            return None
        home = import_module(f"txqueue.cli.{_HOMES[cmd_name]}")
        command: click.Command = getattr(home, cmd_name.replace("-", "_"))
        return command


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="txqueue", message="%(prog)s %(version)s")
@click.pass_context
def root(context: click.Context) -> None:
    """Background jobs for Python, in the PostgreSQL database that you already have.

    Examples:
        dev --app tasks
        status
        help enqueue
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit.

    Args:
        arguments: The arguments; by default those of the process.

    Raises:
        SystemExit: Always: with status 0 for success, 1 for a fault found or an action refused, 2
            for wrong arguments.
    """
    # SIGTERM and SIGHUP cause the same clean-up as Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    prepare_streams()
    options = GlobalOptions()
    try:
        status = run(arguments, options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The program that reads the output has closed the pipe.
        discard_output()
        status = DONE
    except OSError as error:
        _complain(error, f"the output cannot be written: {error.strerror or error}", options)
        discard_output()
        status = FAULT
    sys.exit(status)


def run(arguments: Sequence[str] | None, options: GlobalOptions) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: The arguments; by default those of the process.
        options: Receives the values of the options of every command.
    """
    try:
        words = None if arguments is None else list(arguments)
        status = root.main(words, prog_name="txqueue", standalone_mode=False, obj=options)
        return int(status or DONE)
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort) as error:
        _complain(error, "interrupted", options)
        return INTERRUPTED
    except Exception as error:
        line, status = error_line(error)
        _complain(error, line, options)
        return status


def error_line(error: Exception) -> tuple[str, int]:
    """Return one line that says what is wrong and how to fix it, and the exit status."""
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "txqueue"
        message = error.format_message().rstrip(".")
        for words, plain_words in _PLAIN.items():
            message = message.replace(words, plain_words)
        if isinstance(error, click.NoSuchOption):
            from txqueue.model.names_elsewhere import option_elsewhere

            options = error.ctx.command.params if error.ctx else ()
            known = [name for each in options for name in each.opts]
            meaning = option_elsewhere(error.option_name, known)
            message = ": ".join(filter(None, (message, meaning)))
        return f"{message}; see: {path} --help", WRONG_CALL
    if isinstance(error, click.ClickException):
        return error.format_message(), FAULT
    if isinstance(error, TxqueueError):
        return str(error), WRONG_CALL if isinstance(error, ConfigurationError) else FAULT
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{error.filename or 'the output'} cannot be written: {error.strerror}", FAULT
    line = f"{type(error).__name__}: {error}"
    return f"txqueue has a fault: {line}; --debug shows where, please report it", FAULT


def _complain(error: BaseException, line: str, options: GlobalOptions) -> None:
    """Print an error: a line for people, or a JSON document with --json."""
    if options.debug:
        import traceback

        traceback.print_exc()
    from txqueue.model.humanize import plain

    if options.json:
        what, remedy = getattr(error, "what", line), getattr(error, "remedy", "")
        document = {"error": type(error).__name__, "what": what, "remedy": remedy}
        click.echo(json.dumps(document), err=True)
        return
    click.echo(f"error: {plain(' '.join(line.split()))}", err=True)
