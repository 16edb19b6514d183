"""The commands of the distribution ``txqueue-torture``, or how to install it."""

from __future__ import annotations

from importlib import import_module

import click

from txqueue.cli.options import Command, Group
from txqueue.errors import ConfigurationError

__all__ = ["WithLaboratory"]

INSTALL = "pip install txqueue-torture"
_NAMES = ("bench", "torture")


class WithLaboratory(Group):
    """A group that also has the laboratory's commands, which are imported when one is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, those of the laboratory last."""
        return [*super().list_commands(ctx), *_NAMES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; for one that is not installed, one that says how to install it."""
        return (
            _installed_command(cmd_name)
            if cmd_name in _NAMES
            else super().get_command(ctx, cmd_name)
        )


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
