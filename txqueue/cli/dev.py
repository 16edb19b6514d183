"""``txqueue demo`` and ``dev``: a database, a node and jobs on this machine, without any setup."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from txqueue.cli.options import Command, GlobalOptions, command, valued
from txqueue.cli.output import Lines, facts, notes, show, styled
from txqueue.demo import twistd
from txqueue.demo.environment import bars
from txqueue.errors import ConfigurationError
from txqueue.model.humanize import amount, duration, rate
from txqueue.system.application_files import SourceWatch
from txqueue.system.processes import Process, WatchedProcess
from txqueue.system.settings import TYPED_VARIABLE

if TYPE_CHECKING:
    from txqueue.demo.environment import Stages, TemporarySchema


APP = "txqueue.demo.work"


@command()
@click.option("--jobs", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
def demo(options: GlobalOptions, jobs: int, workers: int) -> int:
    """Run a database, a node and jobs here, and clean up.

    Examples:
        demo
        demo --jobs 10000
    """
    if options.dsn:
        raise ConfigurationError(
            "the demo starts its own server and takes no --dsn",
            "leave it out; to measure your database: txqueue bench drain --dsn DSN",
        )
    from txqueue.demo.environment import embedded_schema

    with bars(notes(options)) as stages, embedded_schema(stages) as target:
        document = _perform(target, stages, jobs, workers)
    show(options, document, lambda: _summary(document))
    return 0 if document["done"] == jobs else 1


def _perform(target: TemporarySchema, stages: Stages, jobs: int, workers: int) -> dict[str, Any]:
    from txqueue.demo.node import RunningNode, enqueue_all, outcome, publish, wait_until_done
    from txqueue.demo.work import Nothing

    with target.session() as session:
        publish(session, Nothing)
        began = time.monotonic()
        enqueue_all(session, map(Nothing, range(jobs)), stages.begin("enqueuing", jobs))
        filled = time.monotonic() - began
        stages.begin("starting a node")
        with RunningNode(target, APP, workers) as node:
            advance = stages.begin("performing", jobs)
            wait_until_done(session, node, jobs, advance)
        span = outcome(session)
    return {
        "jobs": jobs,
        "done": span.done,
        "failed": span.failed,
        "seconds": round(span.seconds, 3),
        "jobs_per_second": round(span.done / span.seconds) if span.seconds else 0,
        "enqueue_per_second": round(jobs / filled),
        "workers": workers,
        **target.facts(),
    }


def _summary(result: Mapping[str, Any]) -> Lines:
    yield facts(
        [
            ("jobs", amount(result["jobs"])),
            ("done", styled(amount(result["done"]), "green")),
            ("failed", styled(amount(result["failed"]), "red" if result["failed"] else "")),
            ("performed in", duration(result["seconds"])),
            ("performed", f"{rate(result['jobs_per_second'])} jobs/s"),
            ("enqueued", f"{rate(result['enqueue_per_second'])} jobs/s"),
            ("by", f"{result['workers']} workers, on PostgreSQL {result['postgres']}, embedded"),
        ]
    )


# Seconds between two looks at the files, for which a node that is stopped waits for its running
# jobs, and until a process that does not stop is killed.
EVERY, GRACE, STOP_LIMIT = 0.5, 2.0, 10.0
# The first of the ports at which it looks for a free one, and how many there are.
FIRST_PORT, PORTS = 8390, 10
_WEB: Final = ("-c", "from txqueue.cli import main; main()", "web")


class _Forwarded(Command):
    """A command that leaves all options to the program that it becomes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params = [each for each in self.params if isinstance(each, click.Argument)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the options of the program."""
        from txqueue.tap import Options

        super().format_options(ctx, formatter)
        with formatter.section("Options of a node"):
            formatter.write_dl(Options.documented())


@click.command(
    cls=_Forwarded,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, metavar="--app MODULE [OPTION]...", type=click.UNPROCESSED)
@click.pass_obj
def node(options: GlobalOptions, words: tuple[str, ...]) -> None:
    """Run a node in the foreground; SIGTERM drains it.

    It is, with the same options: twistd -n --pidfile= txqueue. Services name twistd itself.

    Examples:
        node --app tasks
        node --app tasks --queues default,mail --web tcp:8390
    """
    given = {"--dsn": options.dsn, "--schema": options.schema}
    before = [word for name, value in given.items() if value for word in (name, value)]
    program = [*twistd(), *before, *words]
    os.execve(program[0], program, {**os.environ, TYPED_VARIABLE: "txqueue node"})


@command()
@click.option(
    "--app",
    multiple=True,
    required=True,
    metavar="MODULE",
    help="A module that defines work items; repeatable.",
)
@valued(
    "--web",
    "ENDPOINT",
    f"Where the dashboard listens (default: the first free port from {FIRST_PORT} on).",
)
@click.option(
    "--queues", default="default", show_default=True, help="The queues to serve, joined by commas."
)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True)
def dev(
    options: GlobalOptions, *, app: Sequence[str], web: str | None, queues: str, workers: int
) -> None:
    """Run a database, a node and the dashboard here.

    The node restarts when code changes. Without a DSN the database is an embedded server of this
    folder's own, whose data stay for the next time.

    Examples:
        dev --app tasks
        dev --app tasks --workers 2
    """
    endpoint = _endpoint(web)
    # Both stop the processes; Ctrl-C is how this command ends, and no error.
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    with ExitStack() as stack:
        project = _project(Path.cwd())
        dsn = options.chosen_dsn or _embedded(options, project, stack)
        if source := options.chosen_dsn.source:
            click.echo(f"server:    set by {source}; unset it to start this folder's own", err=True)
        name = options.settings.node_name(f"{socket.gethostname()}-{project}")
        key = secrets.token_urlsafe(16)
        command = [*twistd(), "--name", name, "--queues", queues, "--workers", str(workers)]
        for module in app:
            command += ["--app", module]
        watch = SourceWatch(Path.cwd())
        environment = {"TXQUEUE_DSN": dsn, "TXQUEUE_SCHEMA": options.chosen_schema}
        environment[TYPED_VARIABLE] = "txqueue dev"
        show = [sys.executable, *_WEB, "--web", endpoint]
        has_dashboard = find_spec("jinja2") is not None
        if has_dashboard:
            stack.enter_context(_running(show, {**environment, "TXQUEUE_WEB_KEY": key}))
        _greet(endpoint if has_dashboard else None, key, dsn, options.settings.node_socket(name))
        click.echo(f"watching {len(watch)} Python files; Ctrl-C stops", err=True)
        # The dashboard is a process of its own, which stays while the node restarts.
        _run(command, {**environment, "TXQUEUE_WEB": ""}, watch)


def _end(number: int, _: FrameType | None) -> None:
    # Another signal does not interrupt the end of the processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0 if number == signal.SIGINT else 128 + number)


def _endpoint(web: str | None) -> str:
    """Return where the dashboard listens, after a check that it is free."""
    from txqueue.wire.endpoints import parsed_endpoint

    if web is None:
        return _free_port()
    endpoint = parsed_endpoint(web)
    if endpoint.path is not None:
        raise ConfigurationError("a browser cannot open a unix socket", "give --web tcp:PORT")
    endpoint.ensure_free("choose another --web")
    return web


def _free_port() -> str:
    """Return the first port that is free: other projects may use the ones before it."""
    from txqueue.wire.endpoints import parsed_endpoint

    last = FIRST_PORT + PORTS - 1
    for port in range(FIRST_PORT, last + 1):
        with suppress(ConfigurationError):
            parsed_endpoint(f"tcp:{port}").ensure_free()
            return f"tcp:{port}"
    raise ConfigurationError(
        f"the ports from {FIRST_PORT} to {last} are in use", "give --web tcp:PORT"
    )


def _project(folder: Path) -> str:
    """Return a name for the project in a folder, which no project in another folder has."""
    whole = hashlib.sha256(os.fsencode(folder)).hexdigest()
    return f"{folder.name or 'root'}-{whole[:8]}"


def _embedded(options: GlobalOptions, project: str, stack: ExitStack) -> str:
    """Start the project's embedded server and migrate it; return its DSN."""
    from txqueue.embedded import EmbeddedServer
    from txqueue.store.schema.migrations import migrate

    folder = options.settings.state_dir() / "dev" / project
    dsn = stack.enter_context(EmbeddedServer(folder))
    migrate(dsn, options.chosen_schema)
    click.echo(f"data:      {folder}", err=True)
    return dsn


def _greet(endpoint: str | None, key: str, dsn: str, node: str) -> None:
    """Print where the dashboard is, if it is installed, and what other programs need."""
    from txqueue.wire.endpoints import parsed_endpoint

    place = "it needs Jinja2; run: pip install 'txqueue[web]'"
    if endpoint is not None:
        place = f"http://localhost:{parsed_endpoint(endpoint).port}/login?key={key}"
    click.echo(f"dashboard: {place}", err=True)
    click.echo(f"database:  export TXQUEUE_DSN={_quoted(dsn)}", err=True)
    click.echo(f"node:      export TXQUEUE_NODE={_quoted(node)}", err=True)


def _quoted(value: str) -> str:
    return f"'{value}'" if "'" not in value else shlex.quote(value)


def _run(command: Sequence[str], environment: Mapping[str, str], watch: SourceWatch) -> None:
    """Run the node, again after each change, until this process is interrupted."""
    while True:
        with _running(command, environment) as node:
            has_ended = False
            while not (changed := watch.changed()):
                if not has_ended and node.poll() is not None:
                    has_ended = True
                    click.echo("the node has ended; it starts again after a change", err=True)
                time.sleep(EVERY)
            names = ", ".join(os.path.relpath(path) for path in changed[:3])
            click.echo(
                f"changed: {names}{' ...' if len(changed) > 3 else ''}; restarting", err=True
            )


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Process]:
    """Run the node or the dashboard, whose log goes to the terminal, during the block.

    Args:
        command: Its command line.
        environment: What its environment has besides this process's.
    """
    watched = WatchedProcess.start(command, env={**os.environ, **environment})
    try:
        yield watched.process
    finally:
        # A node waits for its jobs, and at the second signal returns them to the queue: a job that
        # is killed instead would count a death for each change of the code.
        watched.stop(GRACE, STOP_LIMIT)
