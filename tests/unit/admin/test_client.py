"""An operator's end of the connection: calls time out, and long lists arrive whole."""

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols import amp
from twisted.python.failure import Failure
from twisted.test.iosim import connectedServerAndClient

from txqueue.admin import Admin, AdminRefused
from txqueue.admin.client import PATIENCE, AdminLink
from txqueue.errors import NodeUnavailable
from txqueue.wire import admin_commands as wire
from txqueue.wire.endpoints import parsed_endpoint
from txqueue.wire.pipe import Pipe, Responders

NOW = "2026-01-01T00:00:00+00:00"


def made(clock: Clock) -> Admin:
    """An operator's end that is connected nowhere yet."""
    return Admin(AdminLink(cast("Any", clock), parsed_endpoint("unix:node.sock")))


def pipe_of(admin: Admin) -> Pipe:
    """The pipe of its link."""
    return cast("AdminLink", admin._link).pipe


def speaking_with(responders: Responders) -> tuple[Admin, Any]:
    """An operator and a node that answers so, connected in memory."""
    admin = made(Clock())
    server = Pipe(responders, lost=lambda: None)
    _, _, pump = connectedServerAndClient(lambda: server, lambda: pipe_of(admin))
    return admin, pump


def result_of(pump: Any, coroutine: Any) -> Any:
    """Run a coroutine to its end."""
    results: list[Any] = []
    Deferred.fromCoroutine(coroutine).addBoth(results.append)
    pump.flush()
    (result,) = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


@pytest.mark.parametrize("how", ["silent", "gone"])
def test_a_node_that_does_not_answer(how: str) -> None:
    """Is given up after a while, or at once when the connection is gone."""
    clock = Clock()
    admin = made(clock)
    transport: Any = StringTransport()
    pipe_of(admin).makeConnection(transport)
    results: list[Any] = []
    Deferred.fromCoroutine(admin.nodes()).addBoth(results.append)
    if how == "gone":
        pipe_of(admin).connectionLost(Failure(ConnectionLost()))
    else:
        clock.advance(PATIENCE - 1)
        assert results == []
        clock.advance(1)
    (failure,) = results
    assert failure.check(NodeUnavailable)
    assert "no node answers at unix:node.sock" in str(failure.value)
    assert clock.getDelayedCalls() == []


def test_pages_are_put_together() -> None:
    """Until there is no next."""
    pages = {None: ('[{"name": "a"}]', "a"), "a": ('[{"name": "b"}]', "")}

    def nodes(after: str | None) -> dict[str, str]:
        text, following = pages[after]
        return {"nodes": text, "next": following}

    admin, pump = speaking_with({wire.ListNodes: nodes})
    assert result_of(pump, admin.nodes()) == [{"name": "a"}, {"name": "b"}]


def test_many_jobs_are_acted_on_some_at_a_time() -> None:
    """Their outcomes are merged."""
    calls: list[int] = []

    def cancel(ids: str, **_: object) -> dict[str, str]:
        numbers = ids.split(",")
        calls.append(len(numbers))
        return {"cancelled": ids, "requested": "", "refused": numbers[0]}

    admin, pump = speaking_with({wire.ACT_COMMANDS["cancel"]: cancel})
    done = result_of(pump, admin.cancel(range(1, 2502)))
    assert calls == [1000, 1000, 501]
    assert (done.cancelled, done.requested) == (list(range(1, 2502)), [])
    assert done.refused == [1, 1001, 2001]
    assert result_of(pump, admin.cancel([])).cancelled == []


def test_a_refusal_is_raised() -> None:
    """With the line that the node said."""

    def pause(kind: str, key: str, **_: object) -> dict[str, bool]:
        raise AdminRefused(f"not {kind} {key}", "do this")

    admin, pump = speaking_with({wire.ACT_COMMANDS["pause"]: pause})
    with pytest.raises(AdminRefused, match="not queue mail; do this"):
        result_of(pump, admin.pause("mail"))


def page_of(**more: Any) -> Responders:
    """Return a node that answers with an empty page of jobs."""
    return {wire.ListJobs: lambda **_: {"jobs": "[]", "next": "7", "at": NOW, **more}}


def test_a_page_tells_how_many_jobs_were_searched() -> None:
    """If it ends because of that."""
    for searched, expected in ((20_000, 20_000), (0, None)):
        admin, pump = speaking_with(page_of(searched=searched))
        page = result_of(pump, admin.jobs_page(tag=["a=b"], payload=["x=1"], error="%"))
        assert (page.jobs, page.next, page.searched) == ([], "7", expected)


def test_a_filter_that_an_older_node_ignores_is_refused() -> None:
    """An act on all that match would change other jobs; other filters are answered."""
    admin, pump = speaking_with(page_of())
    with pytest.raises(AdminRefused, match="too old for the filter payload, tag"):
        result_of(pump, admin.jobs_page(tag=["a"], payload=["x=1"], queue="mail"))
    assert result_of(pump, admin.jobs_page(queue="mail", tag=[])).searched is None


def test_a_node_that_is_too_old_for_a_command() -> None:
    """Is refused by name, not taken for a node that does not answer."""
    admin, pump = speaking_with({})
    with pytest.raises(AdminRefused, match="too old for GetQueue; upgrade the node"):
        result_of(pump, admin.queue())


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda admin: admin.set_limit("mail", concurrency=1.7), "concurrency is 1.7, a float"),
        (lambda admin: admin.set_limit("mail", rate="5"), "rate is '5', a str"),
        (lambda admin: admin.set_limit("mail", burst=True), "burst is True, a bool"),
        (lambda admin: admin.set_limit("mail", speed=5), "SetLimit has no argument 'speed'"),
        (lambda admin: admin.set_limit("mail", cleared="rate"), "cleared is 'rate', a str"),
        (lambda admin: admin.job("1"), "job_id is '1', a str"),
        (lambda admin: admin.job(2**63), "job_id is too large"),
        (lambda admin: admin.cancel([10**5000]), "ids is too large"),
        (lambda admin: admin.explain(None), "job_id is None"),
        (lambda admin: admin.cancel("12"), "ids is '12', a str"),
        (lambda admin: admin.retry([1, "2"]), "ids is '2', a str"),
        (lambda admin: admin.set_priority(7, 4), "ids is 7, an? int"),
        (lambda admin: admin.jobs_page(tag="a=b"), "tag is 'a=b', a str"),
        (lambda admin: admin.jobs_page(tag=["x" * 40_000] * 2), "tag is too long"),
        (lambda admin: admin.jobs_page(stat="ready"), "ListJobs has no argument 'stat'"),
        (lambda admin: admin.jobs_page(running_for=10**400), "running_for is 1000"),
        (lambda admin: admin.pause("x" * 70_000), "key is too long"),
        (lambda admin: admin.pause("\ud800"), "key is '.*UTF-8"),
        (lambda admin: admin.postpone_failures("abc", "1h"), "delay is '1h', a str"),
    ],
)
def test_an_argument_of_another_type_is_refused_before_it_is_sent(
    call: Callable[[Admin], Any], argument: str
) -> None:
    """The error names it, not the node, which would end the connection or act on other jobs."""
    asked: list[Any] = []
    commands: tuple[Any, ...] = (*wire.ACT_COMMANDS.values(), wire.GetJob, wire.ListJobs)
    responders: Responders = {each: lambda **given: asked.append(given) for each in commands}
    admin, pump = speaking_with(responders)
    with pytest.raises(AdminRefused, match=argument):
        result_of(pump, call(admin))
    assert asked == []


def test_a_whole_number_is_sent_where_a_number_with_a_fraction_may_be() -> None:
    """As Python's own functions take it."""
    asked: list[Any] = []

    def answer(result: dict[str, Any]) -> Callable[..., dict[str, Any]]:
        def take(**given: Any) -> dict[str, Any]:
            asked.append(given)
            return result

        return take

    postponed = {"postponed": 0, "until": NOW}
    page = {"jobs": "[]", "next": "", "at": NOW}
    admin, pump = speaking_with(
        {
            wire.ACT_COMMANDS["set_limit"]: answer({"control": "null"}),
            wire.ListJobs: answer(page),
            wire.ACT_COMMANDS["postpone_failures"]: answer(postponed),
        }
    )
    result_of(pump, admin.set_limit("mail", rate=5))
    result_of(pump, admin.jobs_page(running_for=60))
    result_of(pump, all_of(admin.jobs(running_for=60, queue="mail")))
    result_of(pump, admin.postpone_failures("abc", 3600))
    numbers = [each.get("rate", each.get("running_for", each.get("delay"))) for each in asked]
    assert numbers == [5.0, 60.0, 60.0, 3600.0]
    assert {type(each) for each in numbers} == {float}


async def all_of(found: AsyncIterator[Any]) -> list[Any]:
    """Collect what an iterator yields."""
    return [each async for each in found]


class Foreign(amp.Command):
    """A command of another program that has the name of one of txqueue's."""

    commandName = b"GetHealth"
    response = [(b"body", amp.Unicode())]


def test_an_answer_that_is_not_valid_is_told_from_no_answer() -> None:
    """Such as that of another program at the endpoint."""
    admin, pump = speaking_with({Foreign: lambda: {"body": "well"}})
    with pytest.raises(NodeUnavailable, match=r"the answer to GetHealth from .* is not valid"):
        result_of(pump, admin.health())


LATER = "2030-01-31T12:00:00+00:00"


def test_all_of_a_kind_are_run_again_some_at_a_time() -> None:
    """Those that failed before the first answer, until there are none."""
    calls: list[str | None] = []

    def retry(fingerprint: str, before: str | None, **_: object) -> dict[str, Any]:
        calls.append(before)
        return {"retried": 1000 if len(calls) < 3 else 0, "before": LATER}

    admin, pump = speaking_with({wire.ACT_COMMANDS["retry_failures"]: retry})
    assert result_of(pump, admin.retry_failures("abc")) == 2000
    assert calls == [None, LATER, LATER]


def test_all_of_a_kind_are_postponed_to_one_moment() -> None:
    """The one that the first answer said."""
    calls: list[str | None] = []

    def postpone(fingerprint: str, delay: float, until: str | None, **_: object) -> dict[str, Any]:
        calls.append(until)
        return {"postponed": 2 - len(calls), "until": LATER}

    admin, pump = speaking_with({wire.ACT_COMMANDS["postpone_failures"]: postpone})
    total, until = result_of(pump, admin.postpone_failures("abc", 60.0))
    assert (total, until.isoformat(), calls) == (1, LATER, [None, LATER])
