"""Errors of operators' commands, and arguments that mean nothing: always an answer, never a lost
connection.
"""

import json
import os
import pwd
import socket
import struct
from itertools import zip_longest
from typing import Any

import psycopg2
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from psycopg2 import errorcodes
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.protocols import amp
from twisted.test.iosim import FakeTransport, connect

from tests.fixtures.leftovers import LoggedFailures
from tests.unit.node.doubles import Workers, fake, lease_of
from txqueue.errors import AdminRefused, DatabaseUnavailable, Refused
from txqueue.model.assignment import CancelledJob
from txqueue.node.operators import AdminHandlers
from txqueue.store.driver.side_by_side import PART, PLACE
from txqueue.store.inquiries.operations import ArchiveProcess
from txqueue.wire import admin_commands as wire
from txqueue.wire.pipe import Pipe

NOW = "2030-01-31T12:00:00+00:00"


class Pool:
    """Stands for the database: answers with rows, or raises."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.statements: list[str] = []

    def query(self, sql: str, parameters: Any = (), before: str = "") -> Deferred[Any]:
        """Answer."""
        self.statements.append(sql % tuple(map(repr, parameters)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return succeed(self.answer(sql) if callable(self.answer) else self.answer)

    query_dicts = query


class Line:
    """A client and a harness, connected in memory.

    Args:
        answer: What the database says.
        described: The node's description.
        family: What kind of socket it is.
    """

    def __init__(
        self,
        answer: Any,
        described: dict[str, Any] | None = None,
        family: int = socket.AF_UNIX,
    ) -> None:
        self.pool = Pool(answer)
        self.workers = Workers()
        self.described = described or {"incarnation": 0}
        pool: Any = self.pool
        # No test asks for an archived job.
        spawner: Any = None
        harness = AdminHandlers(
            pool,
            "txqueue",
            description=fake(self),
            lease=lease_of(5),
            workers=fake(self.workers),
            find_archived=ArchiveProcess(spawner).job,
        )
        self.lost: list[str] = []
        server = Pipe({}, lost=lambda: self.lost.append("server"))
        server.learn(harness.responders(server))
        self.client = amp.AMP()
        ours: Any = FakeTransport(self.client, isServer=False)
        peer = IPv4Address("TCP", "127.0.0.1", 7)
        theirs: Any = FakeTransport(server, isServer=True, peerAddress=peer)
        theirs.getHandle = lambda: _Handle(family)
        self.pump = connect(server, theirs, self.client, ours)

    def describe(self) -> dict[str, Any]:
        """Return the node's description."""
        return self.described

    def ask(self, command: type[amp.Command], **arguments: Any) -> Any:
        """Send a command; return the answer or raise the error."""
        results: list[Any] = []
        self.client.callRemote(command, **arguments).addBoth(results.append)
        self.pump.flush()
        (result,) = results
        if hasattr(result, "raiseException"):
            result.raiseException()
        return result


class TooLong(psycopg2.errors.QueryCanceled):
    """A statement that the server gave up."""

    pgcode = errorcodes.QUERY_CANCELED


@frozen
class _Handle:
    """Stands for a socket at whose other end our own account is."""

    family: int

    def getsockopt(self, *_: int) -> bytes:
        """Say who is there, as the kernel does."""
        return struct.pack("3i", os.getpid(), os.getuid(), os.getgid())


ME = pwd.getpwuid(os.getuid()).pw_name


ACTS: list[tuple[type[amp.Command], dict[str, Any]]] = [
    (wire.ACT_COMMANDS["pause"], {"kind": "queue", "key": "mail"}),
    (wire.ACT_COMMANDS["resume"], {"kind": "queue", "key": "mail"}),
    (wire.ACT_COMMANDS["set_limit"], {"kind": "queue", "key": "mail", "rate": 2.5}),
    (wire.ACT_COMMANDS["cancel"], {"ids": "1,2"}),
    (wire.ACT_COMMANDS["retry"], {"ids": "1"}),
    (wire.ACT_COMMANDS["repeat"], {"job_id": 1}),
    (wire.ACT_COMMANDS["set_priority"], {"ids": "1", "priority": 9}),
    (wire.ActOnSchedule, {"name": "nightly", "act": "run"}),
    (wire.ACT_COMMANDS["drain_node"], {"name": "venus"}),
    (wire.ACT_COMMANDS["undrain_node"], {"name": "venus"}),
    (wire.ACT_COMMANDS["release_type"], {"work_type": "mail.send"}),
]
LOOKS: list[tuple[type[amp.Command], dict[str, Any]]] = [
    (wire.ListQueues, {}),
    (wire.GetStatus, {}),
    (wire.ListJobs, {"state": "ready"}),
    (wire.ListJobs, {"running_for": 60.0}),
    (wire.GetJob, {"job_id": 7}),
    (wire.ListControls, {}),
    (wire.ListActions, {}),
]


@pytest.mark.parametrize(("command", "arguments"), [*ACTS, *LOOKS])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refused("not so", "do this"), "not so; do this"),
        (DatabaseUnavailable("no\nanswer", "wait"), "no answer; wait"),
        (TooLong(), "did not answer within 8 s"),
        (psycopg2.errors.DivisionByZero("by zero"), "the database refuses: by zero"),
    ],
)
def test_every_error_is_an_answer(
    command: type[amp.Command], arguments: dict[str, Any], error: Exception, said: str
) -> None:
    """One line; and the connection stays open."""
    line = Line(error)
    for _ in range(2):
        with pytest.raises(AdminRefused) as caught:
            line.ask(command, **arguments)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    assert line.lost == []


@pytest.mark.parametrize("command", [wire.GetJob, wire.Explain])
def test_a_number_beyond_those_of_the_database_is_refused(command: type[amp.Command]) -> None:
    """By its name: PostgreSQL would say that there is no such function."""
    with pytest.raises(AdminRefused, match=f"job_id is too large; pass at most {2**63 - 1}"):
        Line(AssertionError("it was asked")).ask(command, job_id=2**63)


@pytest.mark.parametrize(("command", "arguments"), [*ACTS, *LOOKS])
def test_a_fault_of_the_node_is_an_answer(
    command: type[amp.Command], arguments: dict[str, Any], logged_failures: LoggedFailures
) -> None:
    """It is named, its text is not told, and the log has it whole."""
    line = Line(RuntimeError("secret"))
    with pytest.raises(AdminRefused, match="the node has a fault: RuntimeError") as caught:
        line.ask(command, **arguments)
    assert "secret" not in str(caught.value)
    assert line.lost == []
    assert len(logged_failures.flush(RuntimeError)) == 1


def test_what_is_no_number_is_refused() -> None:
    """Before the database is asked."""
    line = Line(AssertionError())
    for ids in ("x", "1,,y"):
        with pytest.raises(AdminRefused, match="are not numbers of jobs"):
            line.ask(wire.ACT_COMMANDS["cancel"], ids=ids)
    assert line.pool.statements == []


def test_the_operator_is_never_named_by_the_client() -> None:
    """The connection tells."""
    line = Line([(True, 7)])
    line.ask(wire.ACT_COMMANDS["pause"], kind="queue", key="mail")
    (statement,) = line.pool.statements
    assert f"pause(its_kind => 'queue', its_key => 'mail', who => {ME!r})" in statement


def test_the_holder_of_a_cancelled_job_is_notified() -> None:
    """If it is this node; another node reads it at its next heartbeat. The operator gets all."""
    line = Line([([1], [[5, 9, 2], [6, 9, 4]], [3], 7)])
    answer = line.ask(wire.ACT_COMMANDS["cancel"], ids="1,2,3,4")
    assert answer == {"cancelled": "1", "requested": "2,4", "refused": "3", "act": 7}
    assert line.workers.cancelled == [CancelledJob(9, 2, ME)]


def test_the_holder_of_a_restarted_job_is_notified() -> None:
    """Likewise, whether the job is in the queue again or follows when its run has ended."""
    line = Line([([[5, 9, 1]], [[6, 9, 4], [5, 9, 2]], [3], None)])
    answer = line.ask(wire.ACT_COMMANDS["restart"], ids="1,2,3,4", is_counted=True)
    assert answer == {"restarted": "1", "requested": "4,2", "refused": "3", "act": None}
    assert line.workers.cancelled == [CancelledJob(9, 1, ME, True), CancelledJob(9, 2, ME, True)]
    assert "is_counted => True" in line.pool.statements[0]


def test_a_node_without_its_database_tells_of_itself() -> None:
    """Better than nothing."""
    line = Line(DatabaseUnavailable("no"), {"incarnation": 3, "name": "venus"})
    assert json.loads(line.ask(wire.ListNodes)["nodes"]) == [{"incarnation": 3, "name": "venus"}]


class Clock:
    """A moment."""

    @staticmethod
    def isoformat() -> str:
        """Return its text."""
        return NOW


def with_clock(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as the database answers them together with the time."""
    together = zip_longest(rows, [{"now": Clock}])
    return [
        {PLACE: place, f"{PART}0": row, f"{PART}1": now}
        for place, (row, now) in enumerate(together)
    ]


def test_lists_are_paged() -> None:
    """By the last one's name or number, until next is empty; each page fits an AMP value."""
    rows: list[dict[str, Any]] = [
        {"job_id": number, "group": "x" * 900, "wait": None} for number in range(300, 0, -1)
    ]

    def answer(sql: str) -> list[dict[str, Any]]:
        assert "clock_timestamp" in sql
        after = int(line.pool.statements[-1].split("job.job_id < ")[1].split()[0])
        return with_clock([row for row in rows if row["job_id"] < after])

    line = Line(answer)
    seen: list[int] = []
    after = "301"
    while after:
        said = line.ask(wire.ListJobs, after=after)
        assert len(said["jobs"].encode()) <= 60_000
        assert said["at"] == NOW
        seen += [job["job_id"] for job in json.loads(said["jobs"])]
        after = said["next"]
    assert seen == list(range(300, 0, -1))


def test_a_limit_is_kept() -> None:
    """`next` has the start of the next page."""
    line = Line(with_clock([{"job_id": number, "wait": None} for number in (9, 8, 7)]))
    said = line.ask(wire.ListJobs, limit=2)
    assert [job["job_id"] for job in json.loads(said["jobs"])] == [9, 8]
    assert said["next"] == "8"


@pytest.mark.parametrize(("command", "arguments"), [*ACTS, *LOOKS])
def test_a_plain_port_gives_nothing_away(
    command: type[amp.Command], arguments: dict[str, Any]
) -> None:
    """Any account of the host can reach it, so it neither acts nor shows jobs."""
    line = Line([], family=socket.AF_INET)
    with pytest.raises(AdminRefused, match="it only shows the node's state; use the node's unix"):
        line.ask(command, **arguments)
    assert (line.pool.statements, line.lost) == ([], [])


texts = st.text(max_size=20) | st.sampled_from([",", "1,x", "9" * 30, "'; drop table job", "-1"])
VALUES: dict[type[amp.Argument], st.SearchStrategy[Any]] = {
    amp.Integer: st.integers(),
    amp.Unicode: texts,
    amp.Float: st.floats(),
    amp.ListOf: st.lists(texts, max_size=3),
}
COMMANDS = sorted({command for command, _ in [*ACTS, *LOOKS]}, key=lambda each: each.__name__)

ARGUMENTS = sorted({name for command in COMMANDS for name, _ in command.arguments})


def arguments(command: type[amp.Command]) -> st.SearchStrategy[dict[str, Any]]:
    """All that a command takes, with whatever values."""
    kinds = {name.decode(): kind for name, kind in command.arguments}
    needed = {name: VALUES[type(kind)] for name, kind in kinds.items() if not kind.optional}
    free = {name: VALUES[type(kind)] for name, kind in kinds.items() if kind.optional}
    return st.fixed_dictionaries(needed, optional=free)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.__name__))
@given(data=st.data())
def test_nonsense_is_refused(
    command: type[amp.Command], data: Any, logged_failures: LoggedFailures
) -> None:
    """In words, not as a fault of the node; nothing of it becomes a part of a statement."""
    line = Line(AdminRefused("the database was asked", ""))
    given = data.draw(arguments(command))
    with pytest.raises(AdminRefused) as caught:
        line.ask(command, **given)
    assert "has a fault" not in str(caught.value)
    assert line.lost == []
    assert logged_failures.events == []


@given(values=st.dictionaries(st.sampled_from(ARGUMENTS), st.binary(max_size=20)))
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.__name__))
def test_bytes_that_are_no_arguments_are_refused(
    command: type[amp.Command], values: dict[bytes, bytes], logged_failures: LoggedFailures
) -> None:
    """Missing arguments likewise: the connection stays, and other calls on it get their answers."""
    line = Line(AdminRefused("the database was asked", ""))
    answers: list[Any] = []
    asked = line.client.callRemoteString(command.commandName, **_named(values))
    asked.addBoth(answers.append)
    line.pump.flush()
    [failure] = answers
    assert failure.value.errorCode == b"REFUSED"
    assert line.lost == []
    assert logged_failures.events == []


def _named(values: dict[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in values.items()}
