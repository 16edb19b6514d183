"""``manage.py txqueue``: the command ``txqueue`` for the database of this project."""

from __future__ import annotations

import os
from argparse import REMAINDER, Action, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from txqueue.django.checks import backends, dsn_of

__all__ = ["Command"]


class Leading(Action):
    """Passes an option on that stands before the name of the command."""

    def __call__(
        self, _: ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Keep it, with its value if it has one, as it was given."""
        value = [values] if isinstance(values, str) else []
        namespace.leading = [*namespace.leading, option_string, *value]


class ProjectCommand(BaseCommand):  # type: ignore[misc]  # Django has no types.
    """Passes its arguments on, with the DSN of the backend's database."""

    help = "Runs the command txqueue for the database of a task backend."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the backend, the options of every command of txqueue, and all that follows."""
        from txqueue.cli.options import options_of_every_command

        parser.add_argument("--backend", help="the alias in TASKS (default: the first of txqueue)")
        parser.add_argument(
            "arguments", nargs=REMAINDER, help="as of txqueue, whose --help has them"
        )
        parser.set_defaults(leading=[])
        for option in options_of_every_command():
            # Every command of Django has this one, too.
            if option.name != "no_color":
                nargs = 0 if option.is_flag else None
                parser.add_argument(*option.opts, action=Leading, nargs=nargs, help=option.help)

    def handle(
        self, *, backend: str | None = None, leading: list[str], arguments: list[str], **others: Any
    ) -> None:
        """Run it; the process ends with its status."""
        from txqueue.cli.root import main

        found = [each for each in backends() if backend in (None, each.alias)]
        if not found:
            raise CommandError("TASKS has no such backend with txqueue.django.TxqueueBackend")
        os.environ["TXQUEUE_DSN"] = dsn_of(found[0].database)
        os.environ["TXQUEUE_SCHEMA"] = found[0].schema
        colour = ["--no-color"] if others.get("no_color") else []
        main([*leading, *colour, *arguments])


Command = ProjectCommand
"""The name that Django looks for."""
