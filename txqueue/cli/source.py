"""Gets a command's answer from a node, which can also act, or from the database."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import click

from txqueue.cli.local_nodes import chosen_endpoint, local_endpoints, only_endpoint
from txqueue.cli.options import GlobalOptions
from txqueue.errors import AdminRefused, DatabaseUnavailable, NodeUnavailable, TxqueueError

if TYPE_CHECKING:
    from txqueue.admin import Admin
    from txqueue.store.inquiries.inquiry import Inquiry
    from txqueue.store.inquiries.reader import Session
    from txqueue.store.schema.version import QueueIdentity
    from txqueue.wire.endpoints import INetworkReactor

__all__ = ["account", "act_by_node", "ask_node", "open_session", "read", "read_database"]

T = TypeVar("T")

# libpq's variables by which a caller who gives no DSN names a database.
_NAMING = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")


def read(
    options: GlobalOptions,
    inquire: Callable[[str], Inquiry[T]],
    ask: Callable[[Admin], Awaitable[T]],
) -> T:
    """Return the answer of the node given by --node, or else of the database.

    Args:
        options: Name the node and the database.
        inquire: Returns the inquiry for the database, given the name of the schema.
        ask: Gets the same answer from the node.
    """
    if options.settings.get("node"):
        try:
            return _ask_one(options, _endpoints(options), _queue_to_read(options), ask)
        except NodeUnavailable as error:
            click.echo(f"note: {error.what}; asking the database instead", err=True)
    return read_database(options, inquire)


def act_by_node(options: GlobalOptions, act: Callable[[Admin], Awaitable[T]]) -> T:
    """Let a node act: the one given by --node, or this host's node.

    Args:
        options: Name the node, and the database that is meant, if they do.
        act: Sends the command to the node.

    Raises:
        NodeUnavailable: When there is no such node, it does not answer, or it serves another
            database than the one that is meant.
        DatabaseUnavailable: When that database does not tell which queue it has.
    """
    endpoints = _endpoints(options)
    return _ask_one(options, endpoints, _meant(options), act)


def ask_node(options: GlobalOptions, ask: Callable[[Admin], Awaitable[T]], patience: float) -> T:
    """Ask a node about itself: the one given by --node, or this host's node.

    Only --dsn means a database here: probes run in a node's environment, which names its own one,
    and must not ask it each time.

    Args:
        options: Name the node, and the database that is meant, if they do.
        ask: Sends the command to the node.
        patience: Seconds for the connection and the answer together.

    Raises:
        NodeUnavailable: When there is no such node, it does not answer, or it serves another
            database than the one that is meant.
    """
    endpoint = only_endpoint(_endpoints(options), options.settings.own_socket())
    meant = _queue_to_read(options) if options.dsn else None
    return _ask_one(options=options, endpoints=[endpoint], meant=meant, ask=ask, patience=patience)


def _meant(options: GlobalOptions) -> QueueIdentity | None:
    """Return which queue the named database has; None if no database is named."""
    if not options.chosen_dsn and not any(map(os.environ.get, _NAMING)):
        return None
    from txqueue.store.reads.queue_state import about_identity

    try:
        return read_database(options, about_identity)
    except TxqueueError as error:
        raise DatabaseUnavailable(
            f"whether the node serves the named database cannot be checked: {error.what}",
            _either(
                error.remedy,
                "name no database: without --dsn, TXQUEUE_DSN and libpq's variables the node acts"
                " on the one it serves",
            ),
        ) from None


def _queue_to_read(options: GlobalOptions) -> QueueIdentity | None:
    """Return which queue a looking command means; None too if its database does not answer.

    Nodes are asked just when the database does not answer.
    """
    try:
        return _meant(options)
    except DatabaseUnavailable:
        return None


def _checked(
    meant: QueueIdentity | None, ask: Callable[[Admin], Awaitable[T]]
) -> Callable[[Admin], Awaitable[T]]:
    """Return a function that asks a node only if it serves the queue that is meant."""
    if meant is None:
        return ask

    async def checked(admin: Admin) -> T:
        served = await _served(admin)
        if served.identity != meant.identity:
            raise _other_queue(served, meant)
        return await ask(admin)

    return checked


def _other_queue(served: QueueIdentity, meant: QueueIdentity) -> NodeUnavailable:
    if served.place == meant.place:
        return NodeUnavailable(
            f"the command names {meant.place}, and the node serves another one of that address",
            "was the server replaced, or is it in another container? restart the node, or name one"
            " of that database: --node ENDPOINT",
        )
    return NodeUnavailable(
        f"the node serves {served.place}, and not {meant.place}, which the command names",
        "name a node of that database: --node ENDPOINT; or name the node's own database",
    )


async def _served(admin: Admin) -> QueueIdentity:
    try:
        return await admin.queue()
    except AdminRefused as error:
        raise AdminRefused(
            f"whether the node serves the named database cannot be checked: {error.what}",
            _either(error.remedy, "name no database: leave out --dsn and TXQUEUE_DSN"),
        ) from None


def _either(remedy: str, other: str) -> str:
    """Return two remedies as one; an error that a node has answered has none of its own."""
    return f"{remedy}; or {other}" if remedy else other


def _endpoints(options: GlobalOptions) -> list[str]:
    """Return the endpoint that --node names; without, or with ``auto``, those of this host."""
    text = str(options.settings.get("node", ""))
    return [text] if text not in ("", "auto") else local_endpoints(options.settings)


def _ask_one(
    options: GlobalOptions,
    endpoints: Sequence[str],
    meant: QueueIdentity | None,
    ask: Callable[[Admin], Awaitable[T]],
    patience: float | None = None,
) -> T:
    """Return the answer of a node.

    Args:
        options: Name the operator and the certificates.
        endpoints: Where the node listens, or several nodes of this host, of which one is chosen.
        meant: Which queue the node must serve; None for any.
        ask: Sends the command to the node.
        patience: Seconds for the connection and the answer together; None for no limit.
    """
    from twisted.internet.defer import Deferred, TimeoutError

    from txqueue.admin import Admin
    from txqueue.client.blocking import run_in_reactor

    settings = options.settings

    async def run(reactor: INetworkReactor) -> T:
        tls = {"tls_dir": settings.get("tls_dir"), "name": settings.get("operator", account())}

        async def connect(endpoint: str) -> Admin:
            return await Admin.connect(endpoint, reactor=reactor, **tls)

        endpoint = await chosen_endpoint(endpoints, settings.own_socket(), meant, connect)
        async with await connect(endpoint) as admin:
            return await _checked(meant, ask)(admin)

    async def run_in_time(reactor: INetworkReactor) -> T:
        running = Deferred.fromCoroutine(run(reactor))
        return await (running if patience is None else running.addTimeout(patience, reactor))

    try:
        answer: T = run_in_reactor(run_in_time)
    except TimeoutError:
        raise NodeUnavailable(
            f"the node at {endpoints[0]} does not answer within {patience:g} s",
            "read its log; if its process hangs, restart it",
        ) from None
    return answer


def account() -> str:
    """Return the name of the account that runs the command.

    In a container it may be a number without an entry in the list of users.
    """
    import getpass

    # The errors of Python before 3.13 and since.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return f"uid {os.getuid()}"


def read_database(options: GlobalOptions, inquire: Callable[[str], Inquiry[T]]) -> T:
    """Return the answer of the database.

    Args:
        options: Name the database.
        inquire: Returns the inquiry, given the name of the schema.
    """
    from txqueue.store.inquiries.reader import Reader, Session

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        return Reader(session).find(inquire(session.schema))


@contextmanager
def open_session(options: GlobalOptions) -> Iterator[Session]:
    """Open a database session, after a check that this code can work with the schema."""
    from txqueue.store.inquiries.reader import Session

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        session.ensure_version()
        yield session
