"""``txqueue web``, ``web-user`` and ``mcp``: the dashboard without a node and its users, and the
server for agents.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import GlobalOptions, command, valued
from txqueue.errors import ConfigurationError, TxqueueError

if TYPE_CHECKING:
    from txqueue.system.settings import Settings
    from txqueue.web.settings import ShownDatabase


ENDPOINT = "tcp:8390"


@command()
@valued("--web", "ENDPOINT", f"Where it listens (default: {ENDPOINT}).", "endpoint")
@valued("--databases", "FILE", "A file with the names and DSNs of several databases to serve.")
@valued("--web-users", "FILE", "The file of the users that may log in; see txqueue web-user.")
@valued(
    "--web-proxy", "NAME:HEADER", "The proxy that identifies users, and its header that names each."
)
@valued("--web-hosts", "NAMES", "Host names that the dashboard answers to, joined by commas.")
@valued("--web-base", "PATH", "The dashboard's base path behind a proxy.")
@valued(
    "--tls-dir",
    "FOLDER",
    "The folder with the certificates; the dashboard may then be on any interface.",
)
def web(options: GlobalOptions, /, endpoint: str | None, **flags: str | None) -> None:
    """Serve the dashboard, without a node.

    Without users and certificates it is on this host only, and visitors can only look; over a unix
    socket, this account acts.

    Examples:
        web
        web --web tcp:8400 --web-users users.txt
    """
    from txqueue.system.settings import Settings
    from txqueue.web.settings import ShownDatabase, read_databases

    if options.dsn is not None and flags["databases"] is not None:
        raise ConfigurationError(
            "--dsn and --databases exclude each other", "write all databases into the file"
        )
    flags = {"dsn": options.dsn, "schema": options.schema, "web": endpoint, **flags}
    settings = Settings(flags, os.environ, Path.cwd())
    schema, file = options.chosen_schema, settings.get("databases")
    if file is None or options.dsn is not None:
        dashboard = _dashboard(settings, (ShownDatabase(settings.dsn(), schema),))
    else:
        dashboard = _dashboard(settings, read_databases(Path(str(file)), schema))
    from txqueue.client.blocking import run_in_reactor

    # It serves until it is interrupted, which is no error.
    with suppress(KeyboardInterrupt):
        run_in_reactor(lambda reactor: _serve(reactor, dashboard))


def _dashboard(settings: Settings, databases: tuple[ShownDatabase, ...]) -> Any:
    """Return the settings of the dashboard, all checked."""
    from txqueue.web.settings import dashboard_settings
    from txqueue.wire.endpoints import parsed_endpoint
    from txqueue.wire.tls import credentials_of

    credentials = credentials_of(settings, settings.node_name())
    text = str(settings.get("web", ENDPOINT))
    endpoint = parsed_endpoint(text, credentials, option=settings.label("web"))
    endpoint.ensure_free("choose another --web")
    for database in databases:
        _check(database)
    return dashboard_settings(settings, databases, endpoint)


def _check(database: ShownDatabase) -> None:
    """Check that a database answers; one of several is only reported, and is shown as down."""
    from txqueue.store.schema.migrations import check_database

    try:
        check_database(database.dsn, database.schema)
    except TxqueueError as error:
        if not database.name:
            raise
        click.echo(f"{database.name}: {error}", err=True)


async def _serve(reactor: Any, settings: Any) -> None:
    from twisted.internet.defer import Deferred

    from txqueue.web.service import Dashboard

    dashboard = Dashboard(reactor, settings)
    dashboard.startService()
    reactor.addSystemEventTrigger("before", "shutdown", dashboard.stopService)
    # Who has given a key, as `txqueue dev` does, has printed the address with it.
    if settings.key is None:
        click.echo(f"the dashboard: {_address(settings)}", err=True)
    await Deferred[None]()


def _address(settings: Any) -> str:
    endpoint = settings.endpoint
    if endpoint.path is not None:
        return f"{endpoint}"
    scheme = "http" if endpoint.credentials is None else "https"
    return f"{scheme}://{endpoint.address}:{endpoint.port}{settings.base}/"


@command(name="web-user")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator"]),
    default="viewer",
    show_default=True,
    help="Whether the user may look only, or act, too.",
)
@click.option(
    "--no-password", is_flag=True, help="Store no password, for a user that a proxy identifies."
)
@click.option("--remove", is_flag=True, help="Remove the user.")
def web_user(
    _options: GlobalOptions,
    *,
    file: Path,
    name: str,
    role: str,
    no_password: bool,
    remove: bool,
) -> None:
    """Add, change or remove a user of the dashboard.

    The command asks for the password.

    Examples:
        web-user users.txt ann --role operator
    """
    from txqueue.web.logins import user_line, without_user

    if not name or name.split() != [name] or not name.isprintable():
        raise ConfigurationError(f"{name!r} is not a user's name", "write it without white space")
    users = without_user(file.read_text("utf-8") if file.exists() else "", name)
    if not remove:
        users += f"{user_line(name, role, None if no_password else _password())}\n"
    _replace(file, users)
    click.echo(f"{name} is {'removed' if remove else role}; restart the dashboard")


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    word: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return word


def _replace(file: Path, text: str) -> None:
    """Write a file that only this account can read, whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    new.replace(file)


@command()
@click.option("--act", "may_act", is_flag=True, help="Let the agent act, too: each act twice.")
def mcp(options: GlobalOptions, *, may_act: bool) -> None:
    """Serve an agent by the Model Context Protocol.

    Its client starts the command, and speaks with it over standard input and output. The agent
    may read. With --act it may also act: a first call says what would change, a second one
    confirms that, with a reason, which is recorded.

    Examples:
        mcp --dsn service=shop
        mcp --act
    """
    import asyncio

    try:
        from txqueue.agents.acts import Acting
        from txqueue.agents.tools import AgentServer, read_tools
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigurationError(
            "agents need the package mcp", "install it: pip install 'txqueue[mcp]'"
        ) from None
    reads, acts = [*read_tools(options)], [*Acting(options).tools()]
    server = AgentServer(reads + acts, []) if may_act else AgentServer(reads, acts)
    asyncio.run(server.serve())
