"""``txqueue dev``: a database, a node and the dashboard on this machine, for development."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Final, Self

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.errors import ConfigurationError
from txqueue.system.source_watch import SourceWatch
from txqueue.system.supervision import open_gate, start_gated, start_watcher

__all__ = ["dev"]

# Seconds between two looks at the files, and until a node that does not stop is killed.
EVERY, STOP_LIMIT = 0.5, 10.0
# Ends the node when this process dies.
_WATCH: Final = 'read -r _; kill -TERM "$1"; sleep 15; kill -KILL -"$1"'


@click.command(cls=Command, short_help="Run a database, a node and the dashboard here.")
@click.option("--app", multiple=True, required=True, metavar="MODULE", help="May be repeated.")
@click.option("--web", default="tcp:8390", show_default=True, metavar="ENDPOINT")
@click.option("--queues", default="default", show_default=True, help="Joined by commas.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True)
@click.pass_obj
def dev(options: GlobalOptions, *, app: Sequence[str], web: str, queues: str, workers: int) -> None:
    """Run a database, a node and the dashboard here, and restart the node when code changes.

    Without a DSN the database is an embedded server, whose data stay for the next time.
    """
    _check(web)
    # It stops the node and the server, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _end)
    with ExitStack() as stack:
        from txqueue.bench.node import twistd

        dsn = options.chosen_dsn or _embedded(options, stack)
        key = secrets.token_urlsafe(16)
        command = twistd()
        for module in app:
            command += ["--app", module]
        command += ["--web", web, "--queues", queues, "--workers", str(workers)]
        environment = {"TXQUEUE_DSN": dsn, "TXQUEUE_WEB_KEY": key}
        watch = SourceWatch(Path.cwd())
        _greet(dsn, web, key, len(watch))
        _run(command, environment, watch)


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _check(web: str) -> None:
    from txqueue.wire.endpoints import parsed_endpoint

    endpoint = parsed_endpoint(web)
    if endpoint.path is not None:
        raise ConfigurationError("a browser cannot open a unix socket", "give --web tcp:PORT")
    endpoint.ensure_free("choose another --web")


def _embedded(options: GlobalOptions, stack: ExitStack) -> str:
    """Start the embedded server and migrate it; return its DSN."""
    from txqueue.embedded import EmbeddedServer
    from txqueue.store.migrations import migrate

    dsn = stack.enter_context(EmbeddedServer(options.settings.state_dir() / "embedded"))
    migrate(dsn, options.chosen_schema)
    return dsn


def _greet(dsn: str, web: str, key: str, files: int) -> None:
    from txqueue.wire.endpoints import parsed_endpoint

    port = parsed_endpoint(web).port
    click.echo(f"dashboard: http://localhost:{port}/login?key={key}", err=True)
    click.echo(f"database:  export TXQUEUE_DSN='{dsn}'", err=True)
    click.echo(f"watching {files} Python files; Ctrl-C stops", err=True)


def _run(command: Sequence[str], environment: Mapping[str, str], watch: SourceWatch) -> None:
    """Run the node, again after each change, until this process is interrupted."""
    while True:
        with _NodeProcess(command, environment) as node:
            has_ended = False
            while not (changed := watch.changed()):
                if not has_ended and node.has_ended:
                    has_ended = True
                    click.echo("the node has ended; it starts again after a change", err=True)
                time.sleep(EVERY)
        names = ", ".join(os.path.relpath(path) for path in changed[:3])
        click.echo(f"changed: {names}{' ...' if len(changed) > 3 else ''}; restarting", err=True)


class _NodeProcess:
    """A node whose log goes to the terminal.

    Args:
        command: Its command line.
        environment: What its environment has besides this process's.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def __enter__(self) -> Self:
        """Start the node."""
        # In a group of its own, Ctrl-C reaches only this process, which stops it.
        self._process = start_gated(self._command, env=self._environment, start_new_session=True)
        self._watcher = start_watcher(_WATCH, str(self._process.pid))
        open_gate(self._process)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the node."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._watcher.kill()
        self._watcher.wait()
