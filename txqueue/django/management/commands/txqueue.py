"""``manage.py txqueue``: the command ``txqueue`` for the database of this project."""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from txqueue.django.databases import backends, dsn_of

__all__ = ["Command"]


class ProjectCommand(BaseCommand):  # type: ignore[misc]  # Django has no types.
    """Passes its arguments on, with the DSN of the backend's database."""

    help = "Runs the command txqueue for the database of a task backend."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the backend, and all that follows."""
        parser.add_argument("--backend", help="the alias in TASKS (default: the first of txqueue)")
        parser.add_argument(
            "arguments", nargs=REMAINDER, help="as of txqueue, whose --help has them"
        )

    def handle(self, *, backend: str | None = None, arguments: list[str], **_: Any) -> None:
        """Run it; the process ends with its status."""
        from txqueue.cli.root import main

        found = [each for each in backends() if backend in (None, each.alias)]
        if not found:
            raise CommandError("TASKS has no such backend with txqueue.django.TxqueueBackend")
        os.environ["TXQUEUE_DSN"] = dsn_of(found[0].database)
        os.environ["TXQUEUE_SCHEMA"] = found[0].schema
        main(arguments)


Command = ProjectCommand
"""The name that Django looks for."""
