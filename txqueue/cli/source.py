"""Gets a command's answer from a node, which can also act, or from the database; finds the nodes of
this host, archived jobs, and names that do not exist.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from txqueue.cli.options import JOB_COLUMNS, GlobalOptions
from txqueue.cli.output import note, show_act
from txqueue.errors import (
    AdminRefused,
    ConfigurationError,
    DatabaseUnavailable,
    JobNotFound,
    NodeUnavailable,
    SchemaMismatch,
    TxqueueError,
)

if TYPE_CHECKING:
    from txqueue.admin import Admin
    from txqueue.store.inquiries.inquiry import Inquiry
    from txqueue.store.inquiries.reader import Session
    from txqueue.store.schema.files import QueueIdentity
    from txqueue.system.settings import Settings
    from txqueue.wire.endpoints import INetworkReactor


Connect = Callable[[str], Awaitable["Admin"]]

# Seconds in which the kernel accepts a connection to a socket at which a process listens.
PATIENCE = 1.0


def local_endpoints(settings: Settings) -> list[str]:
    """Return where nodes of this host listen: first the one with the set name, or the host's.

    Raises:
        NodeUnavailable: When there is no socket of a node.
    """
    own = Path(settings.own_socket().removeprefix("unix:"))
    others = sorted(set(own.parent.glob("*.sock")) - {own})
    paths = [own, *others] if own.exists() else others
    if not paths:
        raise NodeUnavailable(
            f"no node is named, and none of this host listens at {own}",
            "start one here (txqueue node --app MODULE), name a running node by its --admin"
            " endpoint: --node ENDPOINT or TXQUEUE_NODE, or name the database: --dsn DSN",
        )
    # A killed node leaves its socket.
    answering = paths if len(paths) == 1 else list(filter(_answers, paths))
    return [f"unix:{path}" for path in answering or paths[:1]]


def only_endpoint(endpoints: Sequence[str], own: str) -> str:
    """Return the endpoint of the host's own node, or else of its only node.

    Raises:
        NodeUnavailable: When there are several others.
    """
    if len(endpoints) == 1 or endpoints[0] == own:
        return endpoints[0]
    raise NodeUnavailable(
        f"this host has {len(endpoints)} nodes: {', '.join(endpoints)}",
        "name one: --node ENDPOINT",
    )


async def chosen_endpoint(
    endpoints: Sequence[str], own: str, meant: QueueIdentity | None, connect: Connect
) -> str:
    """Return the endpoint of a node that may act: any node acts for all of its database.

    Args:
        endpoints: Where nodes listen, as `local_endpoints` returns it.
        own: Where the node listens that has the name of the settings, or of the host.
        meant: Which queue is meant, if the command names a database.
        connect: Connects to a node.

    Raises:
        NodeUnavailable: When the nodes serve different databases, and none of them is named.
    """
    if len(endpoints) == 1 or (meant is None and endpoints[0] == own):
        return endpoints[0]
    served = {endpoint: await _is_served(endpoint, connect) for endpoint in endpoints}
    if meant is not None:
        fitting = [
            endpoint for endpoint, queue in served.items() if queue.identity == meant.identity
        ]
        return fitting[0] if fitting else endpoints[0]
    if len({queue.identity for queue in served.values()}) == 1:
        return endpoints[0]
    queues = "; ".join(f"{endpoint} serves {queue.place}" for endpoint, queue in served.items())
    raise NodeUnavailable(
        f"the nodes of this host serve different databases: {queues}",
        "name a node, --node ENDPOINT, or a database, --dsn DSN",
    )


async def _is_served(endpoint: str, connect: Connect) -> QueueIdentity:
    from txqueue.store.schema.files import QueueIdentity

    try:
        async with await connect(endpoint) as admin:
            return await admin.queue()
    except (AdminRefused, NodeUnavailable):
        return QueueIdentity(identity=endpoint, place="a database that it does not tell")


def _answers(path: Path) -> bool:
    """Tell whether a process listens at a socket; one that hangs does."""
    with closing(socket.socket(socket.AF_UNIX)) as trial:
        trial.settimeout(PATIENCE)
        try:
            trial.connect(str(path))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True


P = ParamSpec("P")
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


def operate(options: GlobalOptions, act: Callable[[Admin], Awaitable[T]]) -> T:
    """Let a node act: the one given by --node, or one of this host; without one, the database.

    Args:
        options: Name the node, and the database that is meant, if they do.
        act: Sends the commands.

    Raises:
        NodeUnavailable: When the named node does not answer or serves another database than the one
            that is meant; or when there is no node here, and no database is named or answers.
        DatabaseUnavailable: When that database does not answer.
    """
    has_begun = False

    async def begin(admin: Admin) -> T:
        nonlocal has_begun
        has_begun = True
        return await act(admin)

    endpoints: list[str] = []
    try:
        endpoints = _endpoints(options)
        return _ask_one(options, endpoints, _meant(options), begin)
    except NodeUnavailable as error:
        is_chosen = str(options.settings.get("node", "")) not in ("", "auto")
        if has_begun or is_chosen or (endpoints and not _names_database(options)):
            raise
        no_node = error
    try:
        return act_in_database(options, act)
    except (DatabaseUnavailable, SchemaMismatch):
        if _names_database(options):
            raise
        raise no_node from None


def act_on(
    options: GlobalOptions, act: str, subject: str, named: Mapping[str, Any], **arguments: Any
) -> None:
    """Act on something else than jobs, and print what has changed.

    Args:
        options: Name the node, and the database that is meant, if they do.
        act: The act.
        subject: The words for what it is about.
        named: What the result has besides the act's answer.
        arguments: The arguments of the act.
    """
    answer = operate(options, lambda admin: admin.act(act, **arguments))
    # A removal always changes something.
    show_act(options, act, subject, {**named, "changed": True, **answer})


def act_in_database(
    options: GlobalOptions,
    act: Callable[[Admin], Awaitable[T]],
    *,
    who: str | None = None,
    is_trial: bool = False,
) -> T:
    """Act in the database, without a node.

    Args:
        options: Name the database.
        act: Sends the commands.
        who: The operator that is recorded; None for the account that runs the command.
        is_trial: Whether each command is rolled back once it has answered.
    """
    from txqueue.admin import Admin
    from txqueue.admin.database import SessionLink

    async def run() -> T:
        return await act(Admin(link))

    async def find(days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
        return _in_archive(days, job_id)

    with open_session(options) as session:
        link = SessionLink(session, who or account(), find, is_trial=is_trial)
        link.why = options.why
        try:
            # It never waits: the connection blocks.
            run().send(None)
        except StopIteration as end:
            answer: T = end.value
    return answer


def _names_database(options: GlobalOptions) -> bool:
    return bool(options.chosen_dsn) or any(map(os.environ.get, _NAMING))


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
    if not _names_database(options):
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


async def _ensure_serves(admin: Admin, meant: QueueIdentity) -> None:
    """Check that a node serves the queue that is meant."""
    try:
        served = await admin.queue()
    except AdminRefused as error:
        raise AdminRefused(
            f"whether the node serves the named database cannot be checked: {error.what}",
            _either(error.remedy, "name no database: leave out --dsn and TXQUEUE_DSN"),
        ) from None
    if served.identity == meant.identity:
        return
    if served.place == meant.place:
        raise NodeUnavailable(
            f"the command names {meant.place}, and the node serves another one of that address",
            "was the server replaced, or is it in another container? restart the node, or name one"
            " of that database: --node ENDPOINT",
        )
    raise NodeUnavailable(
        f"the node serves {served.place}, and not {meant.place}, which the command names",
        "name a node of that database: --node ENDPOINT; or name the node's own database",
    )


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
        name = settings.get("operator", account())
        own = {"tls_dir": settings.get("tls_dir"), "name": name, "why": options.why}

        async def connect(endpoint: str) -> Admin:
            return await Admin.connect(endpoint, reactor=reactor, **own)

        endpoint = await chosen_endpoint(endpoints, settings.own_socket(), meant, connect)
        async with await connect(endpoint) as admin:
            if meant is not None:
                await _ensure_serves(admin, meant)
            return await ask(admin)

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


async def first(rows: AsyncIterator[T], most: int) -> list[T]:
    """Return the first rows of a list that a node sends in pages."""
    found: list[T] = []
    async for row in rows:
        found.append(row)
        if len(found) == most:
            break
    return found


def account() -> str:
    """Return the name of the account that runs the command.

    In a container it may be a number without an entry in the list of users.
    """
    import getpass

    # The errors of Python before 3.13 and since.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return f"uid {os.getuid()}"


def read_database(
    options: GlobalOptions,
    inquire: Callable[Concatenate[str, P], Inquiry[T]],
    *arguments: P.args,
    **named: P.kwargs,
) -> T:
    """Return the answer of the database.

    Args:
        options: Name the database.
        inquire: Returns the inquiry, given the name of the schema and the other arguments.
        arguments: Arguments of the inquiry.
        named: More of them, by name.
    """
    from txqueue.store.inquiries.reader import Session

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        return session.find(inquire(session.schema, *arguments, **named))


@contextmanager
def open_session(options: GlobalOptions) -> Iterator[Session]:
    """Open a database session, after a check that this code can work with the schema."""
    from txqueue.store.inquiries.reader import Session

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        session.ensure_version()
        yield session


def or_archived(
    options: GlobalOptions,
    job_id: int,
    inquire: Callable[[str, int], Inquiry[T]],
    tell: Callable[[dict[str, Any]], T],
    ask: Callable[[Admin], Awaitable[T]] | None = None,
) -> T:
    """Return the answer about a job from the database or a node, or else from the archive.

    Args:
        options: Name the database, whose settings have the archive's location.
        job_id: The job's number.
        inquire: Returns the inquiry for the database.
        tell: Returns the same answer from the columns of the archived job.
        ask: Gets the same answer from a node, if nodes give it.

    Raises:
        JobNotFound: When the job is in neither place.
    """
    try:
        if ask is None:
            return read_database(options, inquire, job_id)
        return read(options, lambda schema: inquire(schema, job_id), ask)
    except JobNotFound:
        row = archived_row(options, job_id)
        if row is None:
            raise
    return tell(row)


def archived_row(options: GlobalOptions, job_id: int) -> dict[str, Any] | None:
    """Return all columns of an archived job; None if no archived job has that number."""
    from txqueue.store.inquiries.jobs import about_archived_days

    return _in_archive(read_database(options, about_archived_days, job_id), job_id)


def _in_archive(days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
    if not days:
        return None
    with with_pyarrow():
        from txqueue.archive.reading import archived_job
    return archived_job(days, job_id)


@contextmanager
def with_pyarrow() -> Iterator[None]:
    """Convert the block's ImportError, if pyarrow is missing, into an error that has a remedy."""
    try:
        yield
    except ImportError as error:
        if error.name != "pyarrow":
            raise
        raise ConfigurationError(
            "archives need pyarrow", "install it: pip install 'txqueue[archive]'"
        ) from None


def note_unknown_names(options: GlobalOptions, filters: Mapping[str, object]) -> None:
    """Note the names among some filters that do not exist, with those that do, for people."""
    if options.json:
        return
    from txqueue.policy.findings.status import unknown_name
    from txqueue.store.reads.job_search import MOST_KNOWN, about_known_names

    names = {kind: filters.get(kind) for kind in (*JOB_COLUMNS, "node")}
    # A node may have answered while the database does not: what it said stands.
    with suppress(TxqueueError):
        for kind, name in names.items():
            if isinstance(name, str):
                known = read_database(options, about_known_names, kind, name)
                is_all = len(known) < MOST_KNOWN
                if (text := unknown_name(kind, name, known, is_all=is_all)) is not None:
                    note(options, text)
