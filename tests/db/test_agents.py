"""What an agent is offered, asked by the client of the protocol's own SDK over standard input."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.test_encrypted import CANARY, Shy
from txqueue.node.settings import policy_row

pytest.importorskip("mcp")

Txqueue = Callable[..., Any]
Call = tuple[str, dict[str, Any]]
Answers = list[tuple[bool, Any]]


class Agent:
    """A client of ``txqueue mcp``, which is started for each conversation."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def ask(self, *calls: Call, flags: tuple[str, ...] = ()) -> tuple[list[Any], Answers]:
        """Return the tools, and of each call whether it was refused and the answer."""
        # The reactor's loop runs in this thread.
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(asyncio.run, self._converse(calls, flags)).result(60)

    async def _converse(
        self, calls: tuple[Call, ...], flags: tuple[str, ...]
    ) -> tuple[list[Any], Answers]:
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters

        program = str(Path(sys.executable).with_name("txqueue"))
        environment = {"TXQUEUE_DSN": self._dsn}
        server = StdioServerParameters(command=program, args=["mcp", *flags], env=environment)
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, [self._answer(await client.call_tool(*call)) for call in calls]

    def _answer(self, result: Any) -> tuple[bool, Any]:
        text = result.content[0].text
        return result.is_error, text if result.is_error else json.loads(text)


@pytest.fixture
def agent(dsn: str) -> Agent:
    """An agent of the test's database."""
    return Agent(dsn)


def test_an_agent_reads_what_the_commands_print(agent: Agent, txqueue: Txqueue) -> None:
    """With the parameters of the commands; payloads only if it asks for them."""
    [job_id] = txqueue("enqueue", "mail", '{"to": "ann"}', "--queue", "mail")["job_ids"]
    of_job = {"job_id": job_id}
    tools, answers = agent.ask(
        ("jobs", {"queue": "mail"}),
        ("explain", of_job),
        ("job", of_job),
        ("job", {**of_job, "with_payload": True}),
    )
    assert {"status", "nodes", "jobs", "job", "explain", "failures", "schedules", "history"} <= {
        tool.name for tool in tools if tool.annotations.read_only_hint
    }
    (_, jobs), (_, why), (_, job), (_, whole) = answers
    assert [row["job_id"] for row in jobs["jobs"]] == [job_id]
    assert why == txqueue("explain", str(job_id))
    assert (job["payload"], whole["payload"]) == ("not shown: pass with_payload", {"to": "ann"})


def test_an_agent_never_sees_what_is_redacted(agent: Agent, node: Master, txqueue: Txqueue) -> None:
    """Even if it asks for payloads, or guesses them by a filter."""
    node.value("select txqueue.publish(%s)", json.dumps([policy_row(Shy)]))
    [job_id] = txqueue("enqueue", Shy.work_type, json.dumps({"number": CANARY}))["job_ids"]
    _, answers = agent.ask(
        ("job", {"job_id": job_id, "with_payload": True}),
        ("jobs", {"payload": [f"number={CANARY}"]}),
    )
    assert answers[0][1]["payload"] == "redacted"
    assert answers[1][1]["jobs"] == []


WRONG: Mapping[str, Call] = {
    "job_id is not of the type integer": ("job", {"job_id": "--dsn=host=evil"}),
    "a character that no job can have": ("jobs", {"queue": "mail\0"}),
    "jobs has no 'dsn'": ("jobs", {"dsn": "host=evil"}),
    "is not one of 'waiting'": ("jobs", {"state": "--help"}),
    "explain needs 'job_id'": ("explain", {}),
    "not in the range": ("explain", {"job_id": 10**30}),
    "there is no tool 'enqueue'": ("enqueue", {}),
}


def test_a_wrong_call_is_refused(agent: Agent) -> None:
    """One line says why; the server goes on, and takes no value for an option."""
    named_as_an_option: Call = ("jobs", {"queue": "--dsn=host=evil"})
    _, answers = agent.ask(*WRONG.values(), named_as_an_option)
    for expected, (is_error, text) in zip(WRONG, answers[:-1], strict=True):
        assert is_error
        assert expected in text
        assert "\n" not in text
    assert answers[-1] == (False, {"jobs": [], "next": None, "searched": None})
