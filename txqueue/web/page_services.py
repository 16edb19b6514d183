"""What the pages work with: a visit, with its request; reads that are bounded in time and shared by
all viewers; and what notifies open pages of changes, by a stream of server-sent events each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from txqueue.errors import DatabaseUnavailable, TxqueueError
from txqueue.model.operator_acts import signed
from txqueue.store.driver.connection_pool import Semaphore
from txqueue.store.inquiries.inquiry import Inquiry
from txqueue.store.inquiries.operations import ArchiveProcess, Operations
from txqueue.store.operator_arguments import prepared
from txqueue.store.reads.dashboard import about_changes
from txqueue.store.reads.job_details import about_job
from txqueue.store.reads.queue_state import about_clock, about_identity
from txqueue.web.logins import STRANGER, Logins, Notices
from txqueue.web.messages import NOTICE, PageRequest, Reply, html, redirect
from txqueue.web.rendering import Renderer

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")

# Shared figures are read again after FRESH seconds, and after COST times as long as reading them
# took: so all viewers together take at most a fiftieth of one of the server's processors. But after
# LONGEST seconds in any case, as a single slow read may be an accident.
FRESH, COST, LONGEST = 1.0, 50.0, 60.0
# The most kinds of figures that are kept: an address may name any queue.
MOST_KEPT = 200


@frozen
class Figures(Generic[T]):
    """What was read, and when.

    Attributes:
        value: What was read.
        age: Seconds since then.
        trouble: Why it could not be read again; None if it is current.
        is_down: Whether that is because the database does not answer.
    """

    value: T
    age: float = 0.0
    trouble: str | None = None
    is_down: bool = False


@define
class _Shared:
    """The last figures of a kind."""

    value: Any = None
    read_at: float = float("-inf")
    due_at: float = float("-inf")
    trouble: str | None = None
    turn: Semaphore = field(factory=lambda: Semaphore(1))


@define
class Reads:
    """Reads what the pages show.

    Args:
        clock: Tells how old figures are.
        operations: Runs queries, and operators' acts.
        schema: The name of the schema.

    Attributes:
        last_identity: The identity of the queue that was read last, of which the kept figures are.
    """

    log = Logger()

    _clock: IReactorTime
    operations: Operations
    schema: str
    last_identity: str = field(default="", init=False)
    _shared: dict[str, _Shared] = field(factory=dict, init=False)
    _probe: _Shared = field(factory=_Shared, init=False)

    async def identity(self) -> str:
        """Return the identity of the queue that is read, and forget the figures of another one.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the query takes too long.
        """
        identity = (await self.operations.find(about_identity(self.schema))).identity
        if identity != self.last_identity:
            self.last_identity = identity
            self._shared.clear()
        return identity

    async def shared(
        self,
        inquire: Callable[Concatenate[str, P], Inquiry[T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Figures[T]:
        """Return figures that all viewers share; the last ones if they cannot be read again.

        Args:
            inquire: Returns the inquiry, given the name of the schema and the other arguments.
            arguments: Arguments of the inquiry.
            named: More of them, by name.

        Raises:
            DatabaseUnavailable: When they could never be read, as the database does not answer.
            Refused: When they could never be read, as that takes too long.
        """
        entry = self._kept(inquire, arguments, named)
        question = partial(inquire, self.schema, *arguments, **named)
        if not await self._renewed(entry, question):
            # Figures that are read once a minute tell of an outage as soon as others do.
            await self._renewed(self._probe, about_clock)
        if entry.read_at == float("-inf"):
            return Figures(await self.operations.find(question()))
        return self._figures(entry)

    async def _renewed(self, entry: _Shared, question: Callable[[], Inquiry[Any]]) -> bool:
        """Read figures if they are due; return whether they were, for this or another viewer."""
        is_read = not entry.turn.tokens
        async with entry.turn:
            if self._clock.seconds() >= entry.due_at:
                await self._read(entry, question)
                is_read = True
        return is_read

    async def latest(
        self, inquire: Callable[[str], Inquiry[T]], patience: float
    ) -> Figures[T | None]:
        """Return shared figures, the last ones if current ones take long; None if there are none.

        Args:
            inquire: Returns the inquiry, given the name of the schema.
            patience: Seconds to wait for current figures.
        """
        entry = self._kept(inquire)
        if entry.turn.tokens:
            reading = self._renewed(entry, partial(inquire, self.schema))
            Deferred.fromCoroutine(reading).addErrback(
                lambda failure: self.log.failure("a read of the dashboard failed", failure=failure)
            )
        with suppress(TimeoutError):
            await entry.turn.acquire().addTimeout(patience, self._clock)
            entry.turn.release()
        return self._figures(entry)

    def _figures(self, entry: _Shared) -> Figures[Any]:
        was_read = entry.read_at > float("-inf")
        age = self._clock.seconds() - entry.read_at if was_read else 0.0
        outage = self.operations.outage
        return Figures(entry.value, age, outage or entry.trouble, outage is not None)

    def _kept(self, inquire: object, *arguments: object) -> _Shared:
        """Return the figures of a question, the last used last; forget the first of too many."""
        name = repr((inquire, arguments or ((), {})))
        entry = self._shared.pop(name, None) or _Shared()
        self._shared[name] = entry
        if len(self._shared) > MOST_KEPT:
            del self._shared[next(iter(self._shared))]
        return entry

    async def _read(self, entry: _Shared, question: Callable[[], Inquiry[Any]]) -> None:
        start, cost = self._clock.seconds(), COST
        try:
            entry.value = await self.operations.find(question())
            entry.read_at, entry.trouble = self._clock.seconds(), None
        except TxqueueError as error:
            entry.trouble = error.what
            # A server that does not answer is spared nothing by a long wait.
            cost = 1.0 if isinstance(error, DatabaseUnavailable) else COST
        finally:
            duration = self._clock.seconds() - start
            entry.due_at = self._clock.seconds() + min(max(FRESH, cost * duration), LONGEST)


# Seconds between two looks; one statement each, while any page is open.
EVERY = 1.0
# Seconds after which open pages refresh even if nothing changed: ages and loads do.
STILL = 20.0
# The most pages that get events; others do not refresh by themselves.
MOST_WATCHERS = 200

Watcher = Callable[[], object]
"""Tells an open page to refresh."""


class Changes:
    """Looks once a second whether jobs or acts have changed, while any page is open.

    Args:
        clock: Times the looks.
        operations: Runs the query.
        schema: The name of the schema.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, operations: Operations, schema: str) -> None:
        self._clock = clock
        self._operations = operations
        self._schema = schema
        self._watchers: set[Watcher] = set()
        self._last: object = None
        self._notified_at = float("-inf")
        self._loop = LoopingCall(self._look)

    @property
    def is_full(self) -> bool:
        """Whether no more pages can get events."""
        return len(self._watchers) >= MOST_WATCHERS

    def add(self, watcher: Watcher) -> None:
        """Send a page events from now on."""
        self._watchers.add(watcher)
        if not self._loop.running:
            # A new one, as a look of the one that was stopped may still run.
            self._loop = LoopingCall(self._look)
            self._loop.clock = self._clock
            self._loop.start(EVERY, now=False)

    def remove(self, watcher: Watcher) -> None:
        """Send a page no more events."""
        self._watchers.discard(watcher)
        if not self._watchers and self._loop.running:
            self._loop.stop()

    def _look(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._tell())

    async def _tell(self) -> None:
        now = self._clock.seconds()
        try:
            answer: object = await self._operations.find(about_changes(self._schema))
        except TxqueueError as error:
            # The pages then show the last figures, and why.
            answer = error.what
        if answer != self._last or now - self._notified_at >= STILL:
            self._last, self._notified_at = answer, now
            for watcher in tuple(self._watchers):
                watcher()


@frozen(kw_only=True)
class Visit:
    """A request, and what answers it.

    Attributes:
        renderer: Makes the HTML.
        notices: Texts about acts.
        logins: Who has logged in; None if there are no users.
        request: The request.
    """

    renderer: Renderer
    notices: Notices
    logins: Logins | None
    request: PageRequest = field(factory=lambda: PageRequest("/", STRANGER))

    def show(self, name: str, status: int = 200, **values: Any) -> Reply:
        """Return the reply with a rendered page."""
        return html(self.renderer.page(name, self.request, **values), status)

    def told(self, text: str, location: str) -> Reply:
        """Return the reply that leads to a page, on which a text about an act is shown."""
        return redirect(location, {NOTICE: self.notices.put(text)})


@frozen(kw_only=True)
class IndexVisit(Visit):
    """A visit to the list of databases.

    Attributes:
        databases: Reads of each database what its pages show, by its name.
    """

    databases: Mapping[str, Reads]


@frozen(kw_only=True)
class PageVisit(Visit):
    """A visit to the pages of a database.

    Attributes:
        reads: Reads what the pages show.
        place: Differs between the places of databases.
        archive: Reads archived jobs.
    """

    reads: Reads
    place: str
    archive: ArchiveProcess

    async def find(
        self,
        inquire: Callable[Concatenate[str, P], Inquiry[T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run an inquiry, given the function that returns it and its arguments after the schema.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the query takes too long.
        """
        return await self.reads.operations.find(inquire(self.reads.schema, *arguments, **named))

    @property
    def mark(self) -> str:
        """A text that differs between databases, also of one name one after the other.

        It is that of the database that answered last.
        """
        return f"{self.place}.{self.reads.last_identity}"

    async def act(self, name: str, arguments: Mapping[str, object]) -> Sequence[Any]:
        """Run an act on the database that the form's page shows; return the row of the act.

        The database compares its identity with the one in the mark. The act is recorded with the
        visitor's name.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            InvalidWork: When a signal or a payload is not what the job awaits.
            Refused: When the database refuses the act, is another one now, or takes too long.
        """
        checked = await prepared(self.reads.operations, self.reads.schema, name, arguments)
        who = signed(self.request.visitor.name, self.request.sent("why"))
        return await self.reads.operations.act(
            name, {**checked, "who": who}, self.request.mark.rpartition(".")[2]
        )

    async def enqueue(self, name: str, arguments: Mapping[str, object]) -> tuple[int, bool]:
        """Run an act that enqueues; return the job's number, and whether the job is new.

        Another one may hold its unique key. Raises what `act` does.
        """
        start = await self.find(about_clock)
        [job_id] = await self.act(name, arguments)
        row = await found_or(None, self.find(about_job, job_id))
        return job_id, row is None or row["enqueued_at"] >= start


async def found_or(other: D, finding: Awaitable[T]) -> T | D:
    """Return what is found, or another value: the rest of the page is of use without."""
    try:
        return await finding
    except TxqueueError:
        return other


Handler = Callable[[PageVisit], Awaitable[Reply]]


def marked(handler: Handler) -> Handler:
    """Mark a page with the database that it shows, if its visitor may act.

    The mark is read before the page: if another database gets the name in between, the page's
    forms are refused. `acting_routes` checks it.
    """

    async def answer(visit: PageVisit) -> Reply:
        if not visit.request.visitor.may_act:
            return await handler(visit)
        # Without an answer, the page shows the last figures.
        with suppress(TxqueueError):
            await visit.reads.identity()
        return await handler(evolve(visit, request=evolve(visit.request, mark=visit.mark)))

    return answer
