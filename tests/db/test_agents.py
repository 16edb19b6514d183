"""What an agent is offered, asked by the client of the protocol's own SDK over standard input."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.db.letters import opened
from tests.db.masters import Master
from tests.db.test_encrypted import CANARY, Secret, Shy, key  # noqa: F401 - a fixture
from txqueue.cli.options import GlobalOptions
from txqueue.errors import TxqueueError
from txqueue.model.operator_acts import ACTS

pytest.importorskip("mcp")
acts = pytest.importorskip("txqueue.agents.acts")

Txqueue = Callable[..., Any]
Call = tuple[str, dict[str, Any]]
Answers = list[tuple[bool, Any]]


class Agent:
    """A client of ``txqueue mcp``, which is started for each conversation."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def ask(self, *calls: Call, flags: tuple[str, ...] = ()) -> tuple[list[Any], Answers]:
        """Return the tools, and of each call whether it was refused and the answer.

        A call whose argument `confirm` is None confirms what the call before has returned.
        """
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
            answers: Answers = []
            for name, arguments in calls:
                is_second = "confirm" in arguments and arguments["confirm"] is None
                confirm = {"confirm": answers[-1][1]["confirm"]} if is_second else {}
                result = await client.call_tool(name, {**arguments, **confirm})
                answers.append(self._answer(result))
            return tools, answers

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


@pytest.mark.usefixtures("key")
async def test_an_agent_never_sees_what_is_hidden(agent: Agent, dsn: str) -> None:
    """Even if it asks for payloads, or guesses them by a filter."""
    async with opened(dsn) as queue:
        jobs = {"redacted": Shy(CANARY), "encrypted": Secret(CANARY)}
        ids = {why: await queue.enqueue(work) for why, work in jobs.items()}
    _, answers = agent.ask(
        *(("job", {"job_id": job_id, "with_payload": True}) for job_id in ids.values()),
        ("jobs", {"payload": [f"number={CANARY}"]}),
    )
    assert [answer["payload"] for _, answer in answers[:-1]] == list(ids)
    assert answers[-1][1]["jobs"] == []


WRONG: Mapping[str, Call] = {
    "expected integer @ $.job_id": ("job", {"job_id": "--dsn=host=evil"}),
    "a character that no job can have": ("jobs", {"queue": "mail\0"}),
    "extra fields found @ $": ("jobs", {"dsn": "host=evil"}),
    "invalid value (enum ['waiting'": ("jobs", {"state": "--help"}),
    "required field missing @ $.job_id": ("explain", {}),
    "invalid value (maximum 9223372036854775807) @ $.job_id": ("explain", {"job_id": 10**30}),
    "there is no tool 'enqueue'": ("enqueue", {}),
    "this server only reads; start it to act: txqueue mcp --act": ("retry", {"ids": [1]}),
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


ACT = ("--act",)


def test_an_act_is_tried_and_then_confirmed(agent: Agent, txqueue: Txqueue, node: Master) -> None:
    """The trial changes nothing; the act changes the jobs of the trial, and says why."""
    for tenant in ("acme", "globex"):
        txqueue("enqueue", "mail", "{}", "--tenant", tenant, "--count", "2")
    chosen = {"work_type": "mail", "at_most": 3}
    before = node.states()
    tools, answers = agent.ask(("cancel", chosen), flags=ACT)
    [(_, trial)] = answers
    assert {tool.name for tool in tools if tool.annotations.destructive_hint} >= {
        *("cancel", "retry", "pause", "set_limit", "retry_failures", "run_schedule"),
        *("drain_node", "send_signal"),
    }
    assert trial["would"] == "cancel 3 jobs of 2 tenants; more match than at_most"
    assert trial["answer"]["cancelled"]["jobs"] == 3
    assert trial["jobs_by"]["tenant"] == {"globex": 2, "acme": 1}
    assert node.states() == before
    confirmed = {**chosen, "confirm": None, "reason": "the shop is closed"}
    _, [_, (_, done)] = agent.ask(("cancel", chosen), ("cancel", confirmed), flags=ACT)
    assert done["answer"]["cancelled"]["jobs"] == 3
    assert node.states()["cancelled"] == 3
    [act] = txqueue("actions")["actions"]
    assert act["what"] == "cancel"
    assert act["who"].endswith(" by an agent: the shop is closed")


def test_what_was_not_tried_is_not_done(agent: Agent, txqueue: Txqueue) -> None:
    """Not without a reason, with other arguments, with a made-up text, twice, or for all jobs."""
    of_queue = {"kind": "queue", "key": "mail"}
    reasoned = {**of_queue, "confirm": None, "reason": "it is closed"}
    trial: Call = ("pause", of_queue)
    _, answers = agent.ask(
        trial,
        ("pause", {**of_queue, "confirm": None}),
        trial,
        ("pause", {**reasoned, "key": "other"}),
        ("pause", {**reasoned, "confirm": "0123456789abcdef"}),
        ("cancel", {}),
        ("cancel", {"queue": "mail", "ids": [1]}),
        ("cancel", {"ids": ["1) or true --"]}),
        flags=ACT,
    )
    refused = [text for is_error, text in answers if is_error]
    assert len(refused) == 6
    assert "needs a reason" in refused[0]
    assert all("confirms no trial of pause" in text for text in refused[1:3])
    assert all("cancel needs the jobs that are meant" in text for text in refused[3:5])
    assert "expected integer @ $" in refused[5]
    assert (txqueue("actions"), txqueue("limits")) == ({"actions": []}, {"limits": []})


def test_arguments_are_those_of_the_commands(agent: Agent, txqueue: Txqueue) -> None:
    """A moment as people type it, a payload as an object; a trial has no number to undo."""
    [job_id] = txqueue("enqueue", "mail", "{}", "--queue", "q")["job_ids"]
    ids = {"ids": [job_id]}
    tools, answers = agent.ask(
        ("reschedule", {**ids, "to": "2h"}),
        ("edit", {**ids, "payload": {"a": 1}}),
        ("jobs", {"node": "none"}),
        ("reschedule", {**ids, "to": "infinity"}),
        ("edit", {**ids, "payload": "{}"}),
        ("cancel", {"ids": [7] * 101}),
        ("pause", {"kind": "queue", "key": "q", "confirm": "x", "reason": "long" * 750}),
        ("undo", {"act": 99}),
        flags=ACT,
    )
    (_, trial), (_, edited), (_, jobs), *refused = answers
    assert trial["answer"]["changed"]["jobs"] == 1
    assert trial["jobs_by"]["queue"] == {"q": 1}
    assert "acts" not in trial["answer"]
    assert (edited["answer"]["changed"]["jobs"], jobs["jobs"]) == (1, [])
    for (is_error, text), rule in zip(
        refused,
        (
            "not a day or a moment",
            "expected object @ $.payload",
            "(maxItems 100) @ $.ids",
            "(maxLength 200) @ $.reason",
            "there is no act 99",
        ),
        strict=True,
    ):
        assert is_error
        assert rule in text
    assert not [tool.name for tool in tools if "stored function" in tool.description]


def test_each_act_can_be_tried(dsn: str, node: Master, txqueue: Txqueue) -> None:
    """Those that read before they write, too; what is tried leaves nothing behind."""
    [job_id] = txqueue("enqueue", "mail", "{}")["job_ids"]
    txqueue("schedule", "add", "sync", "mail", "{}", "--every", "5min")
    recorded = txqueue("actions")
    of_names = {"kind": "queue", "ids": [job_id], "name": "sync", "job_id": job_id}
    of_names["terms"] = {"kind": "every", "seconds": 60, "jitter": 0, "catch_up": "skip"}
    of_kinds = {"string": "now", "integer": 7, "number": 60.0}
    tried = {}
    for tool in acts.Acting(GlobalOptions(dsn=dsn)).tools():
        needed = {
            name: of_names.get(name) or of_kinds.get(tool.arguments[name].get("type", ""), {})
            for name in (*tool.needed, *{"ids"} & tool.arguments.keys())
        }
        try:
            tried[tool.name] = json.loads(tool.answer(needed))["would"]
        except TxqueueError as error:
            tried[tool.name] = str(error)
    assert len(tried) >= sum(bool(act.command) for act in ACTS.values())
    assert txqueue("actions") == recorded
    assert node.states() == {"waiting": 1}
    assert not [told for told in tried.values() if "read-only" in told or "has no argument" in told]
    assert tried["send_signal"].startswith("send signal")
    assert tried["run_schedule"].startswith("run schedule")
