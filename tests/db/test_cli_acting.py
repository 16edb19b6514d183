"""Commands that act, on a host without a node: the database does it, with the role's rights."""

from contextlib import suppress
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from psycopg2.extensions import make_dsn

from tests.db.conftest import Cli
from tests.db.stored import Stored
from txqueue.admin import Admin
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import root
from txqueue.cli.source import account, operate
from txqueue.errors import AdminRefused, NodeUnavailable

pytestmark = pytest.mark.usefixtures("no_node")


def test_acts_have_the_words_that_a_node_answers(node: Stored, cli: Cli) -> None:
    """On queues, jobs, failures, schedules and nodes; each is recorded with who and why."""
    told = {
        ("pause", "default"): "Queue default is paused.",
        ("resume", "default"): "Queue default is resumed.",
        ("limit", "queue", "default", "--rate", "5", "--burst", "2"): (
            "Queue default has rate 5, burst 2."
        ),
        ("limit", "queue", "default", "--clear", "all"): "Queue default has no limit.",
        ("priority", "9", "{first}"): "Job {first}: of priority 9 now.",
        ("move", "mail", "{first}"): "Job {first}: in the queue mail now.",
        ("undo", "{act}"): "Act {act} is undone; 1 job as before.",
        ("reschedule", "2030-01-01", "{first}"): (
            "Job {first}: not to start before 2030-01-01T00:00:00+00:00."
        ),
        ("edit", '{{"a": 1}}', "{first}"): "Job {first}: with another payload now.",
        ("cancel", "{first}"): "Job {first}: cancelled.",
        ("retry", "{first}"): "Job {first}: to run again.",
        ("signal", "{first}", "approval", "true"): "Job {first} has the signal approval.",
        ("restart", "--all", "--queue", "default"): "No such job.",
        ("cancel", "--all", "--queue", "default"): "2 jobs ({first}, {second}): cancelled.",
        ("delete", "{first}"): "Job {first}: deleted.",
        ("drain", "node"): "Node node is draining; undrain or restart it to accept jobs again.",
        ("undrain", "node"): "Node node accepts jobs again.",
        ("release", "test.kind"): "Type test.kind was not held.",
    }
    first, second = node.enqueue({}, {})
    for words, text in told.items():
        act = node.value("select max(action_id) from txqueue.action")
        shown = cli(*(word.format(first=first, act=act) for word in words), "--why", "a trial")
        assert shown.out.strip() == text.format(first=first, second=second, act=act)
        number = node.value("select max(action_id) from txqueue.action where former is not null")
        is_act = number is not None and number > (act or 0)
        assert (f"undo: txqueue undo {number}" in shown.err) == is_act
    whos = node.column("select distinct who from txqueue.action where what <> 'enqueue'")
    assert whos == [f"{account()}: a trial"]


def test_a_refusal_has_its_reason(node: Stored, cli: Cli) -> None:
    """As that of a node."""
    (job_id,) = node.enqueue({})
    said = cli("retry", str(job_id), status=1).out
    assert f"Job {job_id}: left unchanged." in said
    assert f"job {job_id}" in said.splitlines()[1].lower()
    assert "no live node is named venus" in cli("drain", "venus", status=1).err
    said = cli("failures", "discard", "none", status=1).err
    assert "no job has failed for good like" in said


def test_a_role_without_the_right(node: Stored, dsn: str, cli: Cli) -> None:
    """It may read; the error names what it may not."""
    (job_id,) = node.enqueue({})
    reader = make_dsn(dsn, options="-c role=txqueue_read")
    for words in (("cancel", str(job_id)), ("pause", "default")):
        assert "permission denied" in cli(*words, "--dsn", reader, status=1).err
    assert node.job(job_id)["state"] == "ready"


def test_a_chosen_node_must_answer(node: Stored, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database does not stand in for it."""

    def ask(*_: object) -> None:
        raise NodeUnavailable("no node answers")

    monkeypatch.setattr("txqueue.cli.source._ask_one", ask)
    said = cli("pause", "default", "--node", "unix:node.sock", status=1).err
    assert "no node answers" in said
    assert node.value("select count(*) from txqueue.control where is_paused") == 0


def test_a_job_is_copied_by_the_act_of_that_name(node: Stored) -> None:
    """With another payload if one is given; a job that has not ended is refused."""
    (job_id,) = node.enqueue({})

    async def repeat(admin: Admin) -> int:
        answer = await admin.act("repeat", job_id=job_id, payload='{"order_id": 8}')
        return int(answer["job_id"])

    with pytest.raises(AdminRefused, match="has not ended"):
        operate(GlobalOptions(), repeat)
    (chunk,) = node.claim()
    node.complete(chunk)
    assert node.job(operate(GlobalOptions(), repeat))["payload"] == {"order_id": 8}


def test_the_list_of_acts_says_what_they_were_given(node: Stored, cli: Cli) -> None:
    """Also a priority of 0, and the number of a new job; a long reason has no place in it."""
    job_id, ended = node.enqueue({}, {"priority": 8})
    node.complete(node.claim(1)[0])
    for words in (
        ("priority", "0", str(job_id)),
        ("move", "mail", str(job_id)),
        ("reschedule", "2030-01-01", str(job_id)),
        ("repeat", str(ended)),
    ):
        assert "300" in cli(*words, "--why", "x" * 300, status=1).err
        cli(*words)
    new = max(node.column("select job_id from txqueue.job"))
    shown = cli("actions").out
    for said in ("priority 0", "queue mail", "not before 2030-01-01", f"as job {new}"):
        assert said in shown


def test_a_moment_that_never_comes_is_refused(node: Stored) -> None:
    """By whatever client it is sent; a moment as people write it is taken."""
    ids = node.enqueue({})
    with pytest.raises(AdminRefused, match="to: 'infinity' is not a day or a moment"):
        operate(GlobalOptions(), lambda admin: admin.act("reschedule", ids=ids, to="infinity"))
    answer = operate(GlobalOptions(), lambda admin: admin.act("reschedule", ids=ids, to="2h"))
    assert answer["changed"] == ids


def test_a_discard_names_the_act_that_undo_takes(node: Stored, cli: Cli) -> None:
    """As the other acts that can be undone."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error="ValueError: no")
    told = cli("failures", "discard", node.job(job_id)["fingerprint"])
    number = node.value("select max(action_id) from txqueue.action where former is not null")
    assert told.out.strip() == "1 job discarded."
    assert f"undo: txqueue undo {number}" in told.err
    assert "1 job as before" in cli("undo", str(number)).out


def test_acts_are_undone_the_latest_first_up_to_a_refused_one(node: Stored, cli: Cli) -> None:
    """What is undone before that is shown."""
    (job_id,) = node.enqueue({})
    for priority in ("7", "8"):
        cli("priority", priority, str(job_id))
    later = node.value("select max(action_id) from txqueue.action")
    acts = [str(later - 1), str(later)]
    assert cli("undo", *acts).out.splitlines() == [
        f"Act {number} is undone; 1 job as before." for number in (later, later - 1)
    ]
    assert node.job(job_id)["priority"] == 4
    cli("priority", "9", str(job_id))
    latest = node.value("select max(action_id) from txqueue.action where what = 'priority'")
    said = cli("undo", str(latest), *acts, status=1)
    assert said.out.strip() == f"Act {latest} is undone; 1 job as before."
    assert f"act {later} cannot be undone" in said.err


def test_a_drain_that_waits(
    node: Stored, other: Stored, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last job has ended, or another operator ends the draining; it says what is left.

    The node may be one that lists leave out, as there are too many.
    """
    monkeypatch.setattr("txqueue.store.reads.queue_state._NODES_TOLD", 1)
    node.enqueue({}, {})
    (chunk,) = node.claim()
    other.beats()
    monkeypatch.setattr("txqueue.cli.queues.sleep", lambda _: node.complete(chunk))
    shown = cli("drain", "node", "--wait")
    assert shown.err.splitlines() == [
        "2 jobs left on node node.",
        "Node node has no jobs left.",
    ]
    node.enqueue({})
    cli("undrain", "node")
    node.claim()
    undrain = "select txqueue.undrain_node('node', 'ann')"
    monkeypatch.setattr("txqueue.cli.queues.sleep", lambda _: node.value(undrain))
    assert "another operator undrained it" in cli("drain", "node", "--wait", status=1).err


def test_a_watched_status(node: Stored, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown again until Ctrl-C, which is no error."""
    rests = iter([None, KeyboardInterrupt])

    def rest(_: float) -> None:
        if error := next(rests):
            raise error

    monkeypatch.setattr("txqueue.cli.status.sleep", rest)
    node.enqueue({})
    assert len(cli("status", "--watch", "--json").out.splitlines()) == 2


def test_names_that_a_shell_completes(node: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of queues, types and nodes that begin so; none if the database does not answer."""
    node.enqueue({"queue": "mail"}, {"queue": "default"})

    def completed(*words: str) -> list[str]:
        completion = ShellComplete(root, {}, "txqueue", "_TXQUEUE_COMPLETE")
        return [each.value for each in completion.get_completions(list(words[:-1]), words[-1])]

    assert completed("pause", "m") == ["mail"]
    assert completed("jobs", "--queue", "de") == ["default"]
    assert completed("drain", "") == ["node"]
    monkeypatch.setenv("TXQUEUE_DSN", "host=/nonexistent")
    assert completed("drain", "") == []


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_node_that_this_host_has(
    node: Stored, cli: Cli, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """The database acts if it serves another one, but not after the node may have acted."""

    def ask(_options: object, _endpoints: object, _meant: object, begin: Any) -> None:
        if is_sent:
            with suppress(AttributeError):
                begin(None).send(None)
        raise NodeUnavailable("the connection is lost, or the node serves another database")

    monkeypatch.setattr("txqueue.cli.source._endpoints", lambda _: ["unix:node.sock"])
    monkeypatch.setattr("txqueue.cli.source._ask_one", ask)
    said = cli("pause", "default", status=int(is_sent)).err
    assert ("the connection is lost" in said) is is_sent
    paused = node.value("select count(*) from txqueue.control where is_paused")
    assert paused == int(not is_sent)
