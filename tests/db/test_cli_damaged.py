"""Lists with a damaged row among others: they show all, and say what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards import served
from tests.db.damage import LARGE, LOST, large_json, lose_large_values
from tests.db.masters import Master, master
from tests.db.recurring import put
from tests.fixtures.databases import Templates, fresh_database
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.policy.findings.reason import DAMAGE_REMEDY
from txqueue.web.pages.routes import MENU

Pairs = dict[str, tuple[int, int]]
STATES = ("waiting", "ready", "assigned", "failed", "done", "cancelled")
ENDED = ("failed", "done", "cancelled")
SPOIL = """
    update txqueue.job
       set state = %s, waiting_for = %s, assigned_at = now(), finished_at = now(),
           failed_at = now(), fingerprint = %s,
           payload = %s, options = %s, result = %s, progress = %s, error = %s
     where job_id = %s
"""
WORKSET = """
    with its as (
        insert into txqueue.workset (name, work_type, job, size, batch)
        values ('w', 'test.set', '{}', 1, 1) returning workset_id)
    insert into txqueue.workset_failed (workset_id, origin, key, attempt, error)
    select workset_id, 1, key, 1, error from its,
           (values ('bad', %s), ('good', 'boom')) as item (key, error)
"""
LISTS = (
    ("status",),
    ("jobs",),
    ("jobs", "--payload", "to=zoe"),
    ("jobs", "--tag", "shop"),
    ("jobs", "--error", "boom"),
    ("failures",),
    ("history",),
    ("stats",),
    ("actions",),
    ("worksets",),
    ("worksets", "w"),
    ("schedules",),
    ("schedule", "runs"),
    ("tenants",),
    ("nodes",),
    ("limits",),
)
PAGES = (
    *MENU.titles,
    *("/jobs?payload=to%3Dzoe", "/jobs?error=boom", "/jobs?tag=shop"),
    *("/queues/queue?name=default", "/types/type?name=test.kind"),
)


def spoil(node: Master, job_id: int, state: str, text: str) -> None:
    """Bring a job into a state, with a text in each of its values."""
    value = json.dumps({"to": "zoe", "tags": {"shop": "a"}, "large": text})
    reason = "time" if state == "waiting" else None
    fingerprint = "f" * 12 if state in ("failed", "waiting") else None
    note = json.dumps([1, 2, text])
    values = (value, value, value, note, f"boom {text}", job_id)
    node.cursor.execute(SPOIL, (state, reason, fingerprint, *values))


@pytest.fixture(scope="module")
def dsn(dsn18: str, templates: Templates) -> Iterator[str]:
    """The DSN of a database of these tests, none of which writes to it."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def damaged(dsn: str) -> Iterator[Pairs]:
    """For each state the number of a damaged job and that of a good one."""
    with master(dsn) as node:
        yield spoilt(node)


def spoilt(node: Master) -> Pairs:
    """Fill a database with rows, half of them damaged."""
    found = {}
    for state in STATES:
        bad, good = node.enqueue({"tenant": "ann"}, {})
        spoil(node, good, state, "")
        spoil(node, bad, state, LARGE)
        found[state] = bad, good
        for job_id, text in ((bad, LARGE), (good, "boom")):
            node.cursor.execute(
                "insert into txqueue.failed_attempt (job_id, attempt, at, error, log)"
                " values (%s, 1, now(), %s, %s)",
                (job_id, text, text),
            )
    node.cursor.execute(
        "insert into txqueue.action (who, what, subject, detail) values ('ann', 'x', 'y', %s)",
        (large_json(),),
    )
    for name, text in (("bad", LARGE), ("good", "boom")):
        put(node, name, payload={"text": text})
        node.cursor.execute("update txqueue.schedule set error = %s where name = %s", (text, name))
    node.cursor.execute(WORKSET, (LARGE,))
    node.cursor.execute(
        "insert into txqueue.job_parent (child, parent, any_end) values (%s, %s, false)",
        found["waiting"],
    )
    lose_large_values(node)
    return found


Txqueue = Callable[..., Any]


@pytest.fixture
def txqueue(
    dsn: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Txqueue:
    """Call the command; returns the document with --json, and else the text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str) -> Any:
        assert run(["--dsn", dsn, *words], GlobalOptions()) == 0, capsys.readouterr()
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in words else out

    return call


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_each_command_lists_the_others(txqueue: Txqueue, words: tuple[str]) -> None:
    """As text and as JSON."""
    assert txqueue(*words)
    assert txqueue("--json", *words)


def test_a_list_of_jobs_says_which_are_damaged(damaged: Pairs, txqueue: Txqueue) -> None:
    """And why, and what to do; a filter of contents matches none that it cannot read."""
    rows = {each["job_id"]: each for each in txqueue("--json", "jobs")["jobs"]}
    assert rows.keys() == {job_id for both in damaged.values() for job_id in both}
    for bad, good in damaged.values():
        assert rows[good]["damage"] is None
        assert LOST in rows[bad]["damage"]
    for words in (["--payload", "to=zoe"], ["--tag", "shop=a"], ["--error", "boom"]):
        found = txqueue("--json", "jobs", *words)["jobs"]
        assert {each["job_id"] for each in found} == {good for _, good in damaged.values()}
    bad, good = damaged["ready"]
    shown = txqueue("jobs")
    assert f"job {bad}: its options cannot be read: {LOST}" in shown
    assert f"job {good}:" not in shown
    assert DAMAGE_REMEDY in shown


@pytest.mark.parametrize("state", STATES)
def test_all_else_of_a_damaged_job_is_shown(damaged: Pairs, txqueue: Txqueue, state: str) -> None:
    """Each value that is lost says so, and a job that has not run fails when it is claimed."""
    bad, good = damaged[state]
    whole = txqueue("--json", "job", str(bad))
    assert (whole["job_id"], whole["state"], whole["tenant"]) == (bad, state, "ann")
    assert (
        "its payload and its options and its result and its progress and its error"
        in (whole["damage"])
    )
    assert LOST in whole["options"]["txqueue cannot read this"]
    # Perhaps the options said so.
    assert whole["payload"] == whole["result"] == "redacted"
    for text in (whole["error"], whole["attempts"][0]["error"], whole["attempts"][0]["log"]):
        assert text.startswith(f"txqueue cannot read this: {LOST}")
    assert DAMAGE_REMEDY in " ".join(txqueue("job", str(bad)).split())
    assert txqueue("--json", "job", str(good))["damage"] is None
    why = txqueue("--json", "explain", str(bad))
    assert (why["reason"] == "damaged") is (state != "done")
    assert txqueue("--json", "explain", str(good))["reason"] != "damaged"


def test_the_kinds_of_failure_and_history_have_the_error_that_can_be_read(
    damaged: Pairs, txqueue: Txqueue
) -> None:
    """In place of the one that is lost."""
    errors = {each["job_id"]: each["error"] for each in txqueue("--json", "history")["jobs"]}
    for state in ENDED:
        bad, good = damaged[state]
        assert errors[bad].startswith("txqueue cannot read this")
        assert errors[good] == "boom "
    [kind] = txqueue("--json", "failures")["failures"]
    assert "boom" in kind["error"] or LOST in kind["error"]


@pytest.mark.parametrize("path", PAGES)
async def test_each_page_shows_the_others(damaged: Pairs, dsn: str, path: str) -> None:
    """The list of jobs marks those that are damaged."""
    async with served(dsn) as browser:
        answer = await browser.get(path)
    assert answer.status == 200, answer.text
    assert (LOST in answer.text) or path != "/jobs"


@pytest.mark.parametrize("state", STATES)
async def test_the_page_of_a_damaged_job(damaged: Pairs, dsn: str, state: str) -> None:
    """It says what cannot be read, and what to do."""
    async with served(dsn) as browser:
        answer = await browser.get(f"/jobs/{damaged[state][0]}")
    assert answer.status == 200, answer.text
    assert "Its row is damaged" in answer.text
    assert "restore the row from a backup" in answer.text


def test_a_batch_is_counted_whose_callback_is_damaged(damaged: Pairs, txqueue: Txqueue) -> None:
    """From its jobs; the outcomes that stood in its options are lost."""
    assert txqueue("--json", "batch", str(damaged["waiting"][0]))["left"] == 1
