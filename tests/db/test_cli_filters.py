"""The options of ``txqueue jobs`` that search, and those that give a new job tags."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.masters import Master
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.store.reads import job_search

Call = Callable[..., Any]


@pytest.fixture
def shown(dsn: str, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command for people; returns the exit code, and all that it prints."""

    def call(*words: str) -> tuple[int, str]:
        code = run(["--dsn", dsn, *words], GlobalOptions())
        return code, "".join(capsys.readouterr())

    return call


def test_jobs_that_wait_at_a_step(node: Master, txqueue: Call, shown: Call) -> None:
    """The list and the job say for what, and since when."""
    (job_id,) = node.enqueue({})
    wait = {"name": "approval", "kind": "signal", "signal": "approved", "seconds": 3600}
    node.settle(node.claim()[0], "suspended", waits=[wait])
    assert listed(txqueue, "--waiting-for", "signal=approved") == [job_id]
    assert listed(txqueue, "--waiting-for", "signal=other") == []
    listing = " ".join(shown("jobs")[1].split())
    assert "waiting: signal approved" in listing
    assert "waits for" in listing
    job = " ".join(shown("job", str(job_id))[1].split())
    assert "waits at step approval, since" in job
    assert "until" in job
    assert "not before" not in job
    code, said = shown("jobs", "--waiting-for", "godot")
    assert code == 2
    assert "write signal=NAME, or one of signal, sleep, call" in " ".join(said.split())


def listed(txqueue: Call, *words: str) -> list[int]:
    """Return the numbers of the jobs that the command lists."""
    return [job["job_id"] for job in txqueue("jobs", *words)["jobs"]]


def test_jobs_are_enqueued_and_found_by_tag(node: Master, txqueue: Call, shown: Call) -> None:
    """All the filters together, each as often as it is given."""
    tags = ("--tag", "campaign=spring", "--tag", "team=a=b")
    [job_id] = txqueue("enqueue", "test.kind", '{"order_id": 42}', *tags)["job_ids"]
    assert node.job(job_id)["options"] == {"tags": {"campaign": "spring", "team": "a=b"}}
    node.enqueue({})
    assert listed(txqueue, "--tag", "campaign") == [job_id]
    assert listed(txqueue, "--tag", "campaign=spring", "--tag", "team=a=b") == [job_id]
    assert listed(txqueue, "--tag", "campaign=autumn") == []
    assert listed(txqueue, "--payload", "order_id=42", "--since", "1h") == [job_id]
    assert listed(txqueue, "--until", "2026-01-01") == []
    assert listed(txqueue, "--error", "x") == []
    assert txqueue("jobs", "--tag", "team")["jobs"][0]["tags"] == {
        "campaign": "spring",
        "team": "a=b",
    }
    assert "campaign=spring, team=a=b" in shown("job", str(job_id))[1]


def test_a_search_ends_after_a_number_of_jobs_and_says_so(
    node: Master, txqueue: Call, shown: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the number from which it goes on, in JSON as well."""
    monkeypatch.setattr(job_search, "LOOKED_AT", 10)
    ids = node.enqueue({"options": {"tags": {"a": "b"}}}, *[{}] * 15)
    page = txqueue("jobs", "--tag", "a")
    assert page == {"jobs": [], "next": ids[6], "searched": 10}
    code, text = shown("jobs", "--tag", "a")
    assert code == 0
    assert f"Searched the newest 10 jobs only.\nMore: --after {ids[6]}" in text
    assert "No such job so far." in text
    page = txqueue("jobs", "--tag", "a", "--after", str(ids[6]))
    assert [job["job_id"] for job in page["jobs"]] == [ids[0]]
    assert (page["next"], page["searched"]) == (None, None)
    assert len(txqueue("jobs", "--queue", "default")["jobs"]) == 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("enqueue", "test.kind", "{}", "--tag", "a"), "'a' has no value; write NAME=VALUE"),
        (("enqueue", "test.kind", "{}", "--tag", "a b=c"), "tags are not an object"),
        (("enqueue", "test.kind", "{}", "--traceparent", "nonsense"), "is not a header of W3C"),
    ],
    ids=str,
)
def test_a_wrong_filter_or_tag_is_refused(
    node: Master, shown: Call, words: tuple[str, ...], said: str
) -> None:
    """With what is wrong, and how to write it."""
    code, text = shown(*words)
    assert code != 0
    assert said in " ".join(text.split())
    assert node.states() == {}


def test_a_tag_that_is_given_twice_is_refused(node: Master, shown: Call) -> None:
    """One of the two would be lost silently."""
    code, said = shown("enqueue", "test.kind", "{}", "--tag", "a=1", "--tag", "a=2")
    assert code == 2
    assert "a tag is given twice" in said


@pytest.mark.parametrize("command", ["jobs", "history", "schedules"])
def test_a_filter_that_names_nothing(node: Master, shown: Call, command: str) -> None:
    """An empty list says so, with what exists, the nearest first."""
    node.enqueue({"queue": "mail", "group": "g", "tenant": "t"}, {"queue": "reports"})
    name = "test.kidn"
    code, said = shown(command, "--type", name)
    assert code == 0
    assert f"No live job, node or limit has the work type {name}; there" in said
    assert "test.kind" in said


def test_each_filter_by_a_name(node: Master, shown: Call) -> None:
    """A name that exists is not noted, nor anything with --json."""
    node.enqueue({"queue": "mail", "group": "g1", "tenant": "t1"}, {"queue": "reports"})
    assert "has the queue maill; there are mail, " in shown("jobs", "--queue", "maill")[1]
    assert "has the group g2; there is g1." in shown("jobs", "--group", "g2")[1]
    assert "has the tenant t2; there is t1." in shown("jobs", "--tenant", "t2")[1]
    assert "No node has the name nod; there is node." in shown("jobs", "--on", "nod")[1]
    both = shown("jobs", "--queue", "reports", "--group", "g1")[1]
    assert both.strip() == "No such job."
    assert "there" not in shown("jobs", "--queue", "maill", "--json")[1]
