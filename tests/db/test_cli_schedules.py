"""``txqueue schedules`` and ``txqueue schedule``: what is made, shown and refused."""

import json
from typing import Any

import pytest

from tests.db.conftest import Cli
from tests.db.masters import Master
from tests.db.recurring import DAY, due, passes, tick
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run

pytestmark = pytest.mark.usefixtures("no_node")


@pytest.fixture
def said(cli: Cli) -> Any:
    """Runs a command; returns its JSON document."""
    return lambda *words: json.loads(cli(*words, "--json").out)


def wrong(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says that is refused."""
    assert run(["schedule", *words], GlobalOptions()) in (1, 2)
    return capsys.readouterr().err


ADD = ("schedule", "add", "sync 7", "test.kind", '{"price": 1.10}')


def test_a_schedule_is_made_shown_and_removed(node: Master, said: Any) -> None:
    """With all that was chosen, the payload to the digit; each act leaves a row."""
    chosen = ["--every", "1d", "--jitter", "10%", "--catch-up", "one", "--group", "project:7"]
    assert said(*ADD, *chosen, "--priority", "7") == {"name": "sync 7", "changed": True}
    assert said(*ADD, *chosen, "--priority", "7") == {"name": "sync 7", "changed": False}
    assert node.value("select job::text from txqueue.schedule") == (
        '{"group": "project:7", "payload": {"price": 1.10}, "priority": 7,'
        ' "work_type": "test.kind"}'
    )
    (row,) = said("schedules", "--group", "project:7")["schedules"]
    shown = [row[key] for key in ("kind", "seconds", "jitter", "catch_up", "is_active", "outcome")]
    assert shown == ["every", DAY, DAY / 10, "one", True, None]
    assert said("schedule", "pause", "sync 7")["changed"] is True
    assert said("schedules", "--type", "test.kind")["schedules"][0]["is_active"] is False
    assert said("schedule", "resume", "sync 7")["changed"] is True
    assert said("schedule", "remove", "sync 7")["changed"] is True
    assert said("schedules") == {"schedules": [], "next": None}
    acts = ["schedule", "pause", "resume", "remove"]
    assert node.column("select what from txqueue.action order by action_id") == acts


def test_a_schedule_of_a_type_that_no_node_has_published(node: Master, cli: Cli) -> None:
    """It is made, with a note."""
    arguments = ["schedule", "add", "new", "other.kind", "{}", "--every", "1d"]
    assert "No node has published other.kind yet: its jobs wait" in cli(*arguments).err
    node.publish("other.kind")
    assert cli(*arguments).err == ""


def test_a_schedule_with_a_payload_in_clear_of_an_encrypted_type(
    node: Master, said: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused, as each of its jobs would be."""
    node.publish("test.kind", policy={"encrypted": True})
    error = wrong(capsys, *ADD[1:], "--every", "1d")
    assert "payloads of test.kind are encrypted, and this one is in clear" in error
    assert "TXQUEUE_PAYLOAD_KEY" in error
    assert node.value("select count(*) from txqueue.schedule") == 0
    sealed = ("sealed", "test.kind", '{"encrypted": "gAAA"}', "--every", "1d")
    assert said("schedule", "add", *sealed)["changed"] is True


def test_runs_are_shown_per_schedule_and_per_key(node: Master, said: Any) -> None:
    """How late, how long, with what outcome; those of one group whatever their types."""
    for name, group in (("a", "project:1"), ("b", "project:1"), ("c", "project:2")):
        words = ("--every", "1d", "--catch-up", "one", "--group", group)
        said("schedule", "add", name, "test.kind", "{}", *words)
    tick(node, due(node))
    passes(node, DAY)
    assert tick(node, due(node)) == 3
    # Of a group one at a time.
    while chunks := node.claim():
        for chunk in chunks:
            node.settle(chunk, "failed", error="out of paper")
    runs = said("schedule", "runs", "--group", "project:1")["runs"]
    assert {(each["name"], each["outcome"], each["error"]) for each in runs} == {
        ("a", "failed", "out of paper"),
        ("b", "failed", "out of paper"),
    }
    assert len(said("schedule", "runs", "c")["runs"]) == 1
    assert said("schedule", "runs", "--late", "172800")["runs"] == []
    assert len(said("schedule", "runs", "--late", "0", "--limit", "2")["runs"]) == 2
    (row,) = said("schedules", "--after", "b")["schedules"]
    assert (row["outcome"], row["failed"], row["runs"]) == ("failed", 1, 1)
    assert row["latest"] == row["late"] > 0


def test_people_see_tables(node: Master, cli: Cli, said: Any) -> None:
    """When it is due, and the run that was asked for."""
    said(*ADD, "--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--jitter", "5min")
    job_id = said("schedule", "run-now", "sync 7")["job_id"]
    tick(node, due(node))
    shown = cli("schedules").out + cli("schedule", "runs", "sync 7").out
    assert "0 3 * * * Europe/Berlin" in shown
    assert " in " in shown
    assert str(job_id) in shown


def test_a_schedule_that_ends_is_shown_to_its_end(node: Master, cli: Cli, said: Any) -> None:
    """How many of its times are over, until when it goes, and that it is due never again."""
    ends = ("--times", "1", "--until", "2199-01-31T18:00+01:00")
    said(*ADD, "--every", "1d", "--catch-up", "one", *ends)
    tick(node, due(node))
    passes(node, DAY)
    assert "0 of 1 times, until 2199-01-31" in " ".join(cli("schedules").out.split())
    tick(node, due(node))
    (row,) = said("schedules")["schedules"]
    assert (row["times"], row["enqueued"], row["has_ended"]) == (1, 1, True)
    assert "never again" in cli("schedules").out


def test_invalid_input_is_refused_before_anything_is_written(
    node: Master, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the remedy."""
    add = ADD[1:]
    assert "one of --every" in wrong(capsys, *add)
    assert "one of --every" in wrong(capsys, *add, "--every", "1h", "--cooldown", "1h")
    assert "not a length of time" in wrong(capsys, *add, "--every", "soon")
    assert "not a cron expression" in wrong(capsys, *add, "--cron", "61 * * * *")
    assert "no time zone" in wrong(capsys, *add, "--cron", "0 3 * * *", "--tz", "Mars")
    assert "not a day or a moment" in wrong(capsys, *add, "--every", "1h", "--until", "soon")
    assert "times" in wrong(capsys, *add, "--every", "1h", "--times", "0")
    assert "names no column" in wrong(
        capsys, *add, "--every", "1h", "--only-if", "public.nowhere", "id", "1"
    )
    for name, remedy in (("", "pass a name"), ("x" * 201, "pass a shorter name")):
        assert remedy in wrong(capsys, "add", name, *ADD[3:], "--every", "1h")
    assert "there is no schedule never" in wrong(capsys, "pause", "never")
    assert node.value("select count(*) from txqueue.schedule") == 0


def test_the_times_of_a_schedule_are_replaced(
    node: Master, capsys: pytest.CaptureFixture[str], said: Any
) -> None:
    """Its job stays; what is left out gets its default."""
    said(*ADD, "--every", "1d", "--times", "7", "--group", "project:7")
    edit = ("schedule", "edit", "sync 7", "--cron", "0 4 * * *", "--tz", "Europe/Berlin")
    assert said(*edit) == {"name": "sync 7", "changed": True}
    assert said(*edit) == {"name": "sync 7", "changed": False}
    (row,) = said("schedules", "--group", "project:7")["schedules"]
    assert [row[key] for key in ("kind", "expression", "times")] == ["cron", "0 4 * * *", None]
    assert "there is no schedule none" in wrong(capsys, "edit", "none", "--every", "1h")
    assert "say when" in wrong(capsys, "edit", "sync 7")


def test_overlap_and_the_start_of_a_cool_down_are_chosen_and_shown(
    node: Master, capsys: pytest.CaptureFixture[str], cli: Cli, said: Any
) -> None:
    """Each only for the schedules that it is about."""
    said(*ADD, "--every", "1h", "--overlap", "skip")
    said("schedule", "add", "rest", "test.kind", "{}", "--cooldown", "2h", "--since", "start")
    chosen = [(row["overlap"], row["since"]) for row in said("schedules")["schedules"]]
    assert chosen == [("allow", "start"), ("skip", "end")]
    shown = " ".join(cli("schedules").out.split())
    assert "every 1 h, no overlap" in shown
    assert "after 2 h from the start" in shown
    overlapping = ("--cooldown", "1h", "--overlap", "skip")
    since = ("--every", "1h", "--since", "start")
    assert "leave --overlap out" in wrong(capsys, "edit", "rest", *overlapping)
    assert "leave --since out" in wrong(capsys, "edit", "rest", *since)


def test_a_schedule_that_has_not_run_says_when_it_is_due(node: Master, said: Any, cli: Cli) -> None:
    """And one that is not there says that, and a search that finds no run says no more."""
    said(*ADD, "--every", "1d")
    texts = []
    for words in (["sync 7"], ["sync 8"], ["--late", "5"]):
        texts.append(cli("schedule", "runs", *words).out)
    assert texts[0].startswith("No run yet; the first is due: ")
    assert texts[1:] == ["There is no such schedule.\n", "No such run.\n"]


def test_a_list_of_schedules_is_a_command_of_its_own(
    capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    """`schedule list` is what people try; `certs list` leads nowhere."""
    assert "did you mean txqueue schedules?" in wrong(capsys, "list")
    assert "did you mean" not in cli("certs", "list", status=2).err
