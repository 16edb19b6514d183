"""``txqueue migrate`` and ``txqueue enqueue``: what is written, and what is refused."""

import io
import json
from typing import Any

import pytest
from psycopg2.extensions import make_dsn

from tests.db.conftest import Cli
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.store.inquiries.reader import Session

pytestmark = pytest.mark.usefixtures("no_node")


@pytest.fixture
def dsn(emptied_database18: str) -> str:
    """A database with the schema."""
    return emptied_database18


def stored(dsn: str) -> list[dict[str, Any]]:
    """Every job there is."""
    with Session(dsn) as session:
        return session.dicts("select * from txqueue.job order by job_id")


def test_migrate_twice(database: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time there is nothing to do."""
    monkeypatch.setenv("TXQUEUE_DSN", database)
    first = json.loads(cli("migrate", "--json").out)
    assert (first["from"], first["applied"]) == (0, ["0038_tables"])
    again = json.loads(cli("migrate", "--json").out)
    assert again == {"from": first["to"], "to": first["to"], "applied": [], "advanced": []}
    assert "up to date" in cli("migrate").out


def test_a_database_without_the_schema(database18: str, cli: Cli) -> None:
    """Every command says how to make it."""
    for words in (["status"], ["nodes"], ["jobs"], ["job", "1"], ["enqueue", "t", "{}"]):
        assert "run: txqueue migrate" in cli(*words, "--dsn", database18, status=1).err


def test_a_role_that_may_only_enqueue(dsn: str, cli: Cli) -> None:
    """Its job is written, and no error makes it write another."""
    only = make_dsn(dsn, options="-c role=txqueue_enqueue")
    said = cli("enqueue", "test.kind", "{}", "--dsn", only)
    (job,) = stored(dsn)
    assert said.out == f"Enqueued job {job['job_id']}.\n"


def test_every_option_is_stored(dsn: str, cli: Cli) -> None:
    """Moments with any offset; the payload to the digit."""
    options = {
        "--queue": "mail",
        "--priority": "7",
        "--weight": "3",
        "--group": "user:7 %s",
        "--tenant": "acme",
        "--attempts": "3",
        "--timeout": "2min",
        "--not-before": "2030-01-31T12:00:00+02:00",
        "--not-after": "2030-01-31T11:00:00Z",
    }
    words = [word for pair in options.items() for word in pair]
    payload = '{"price": 1.10, "big": 12345678901234567890, "text": "é \\"%"}'
    told = json.loads(cli("enqueue", "mail.send", payload, *words, "--json").out)
    (job,) = stored(dsn)
    assert told == {"job_ids": [job["job_id"]], "new_ids": [job["job_id"]]}
    assert (job["queue"], job["priority"], job["weight"]) == ("mail", 7, 3)
    assert (job["group"], job["work_type"]) == ("user:7 %s", "mail.send")
    assert (job["tenant"], job["options"]) == ("acme", {"attempts": 3, "timeout": 120.0})
    assert job["not_before"].isoformat() == "2030-01-31T10:00:00+00:00"
    assert job["not_after"].isoformat() == "2030-01-31T11:00:00+00:00"
    with Session(dsn) as session:
        assert session.value("select payload ->> 'price' from txqueue.job") == "1.10"
        assert session.value("select payload ->> 'big' from txqueue.job") == "12345678901234567890"


def test_many_of_the_same(dsn: str, cli: Cli) -> None:
    """More than go in one round trip."""
    assert json.loads(cli("enqueue", "t", '{"n": 1}', "--count", "2500", "--json").out)[
        "job_ids"
    ] == [job["job_id"] for job in stored(dsn)]
    said = cli("enqueue", "t", "{}", "--count", "2")
    assert said.out == "Enqueued 2 jobs: 2501, 2502.\n"
    assert "No node has published t yet" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--unique-mode", "once", "--once-for", "7d"], "no other is enqueued"),
        (["--unique-mode", "keep"], "no other is enqueued"),
        (["--unique-mode", "replace"], "it has the new payload and options now"),
        (["--unique-mode", "again"], "it has the new payload and options now"),
    ],
)
def test_a_job_that_has_the_unique_key_is_named(
    dsn: str, cli: Cli, words: list[str], told: str
) -> None:
    """Not as an enqueued one; --json tells which of the numbers are new."""
    words = ["enqueue", "test.kind", "{}", "--unique", "7", *words]
    said = cli(*words, "--count", "3")
    (job,) = stored(dsn)
    job_id = job["job_id"]
    assert said.out == f"Enqueued job {job_id}: it has the unique key of all 3.\n"
    assert cli(*words).out == f"Job {job_id} has this unique key: {told}.\n"
    assert json.loads(cli(*words, "--json").out) == {"job_ids": [job_id], "new_ids": []}


def test_a_remembered_job_that_is_gone_is_named(dsn: str, cli: Cli) -> None:
    """Its key is remembered for longer than its row."""
    words = ["enqueue", "test.kind", "{}", "--unique", "7", "--unique-mode", "once"]
    assert run(words, GlobalOptions()) == 0
    (job,) = stored(dsn)
    with Session(dsn) as session:
        session.rows("delete from txqueue.job")
        session.rows("delete from txqueue.unique_job")
    assert "no other is enqueued" in cli(*words).out
    assert json.loads(cli(*words, "--json").out) == {"job_ids": [job["job_id"]], "new_ids": []}


def test_a_repeat_that_enqueues_nothing_says_so(dsn: str, cli: Cli) -> None:
    """As another job has the unique key."""
    words = ["enqueue", "test.kind", "{}", "--unique", "7"]
    assert run(words, GlobalOptions()) == 0
    (first,) = stored(dsn)
    with Session(dsn) as session:
        session.rows("select txqueue.cancel(%s::bigint[], 'ann')", ([first["job_id"]],))
    cli(*words)
    out = cli("repeat", str(first["job_id"])).out
    old, new = (job["job_id"] for job in stored(dsn))
    assert out == f"Job {old} is not enqueued again: job {new} has its unique key.\n"


def test_the_payload_from_standard_input(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload may be too long or too secret for the command line."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"secret": 1}\n'))
    assert run(["enqueue", "t", "-"], GlobalOptions()) == 0
    assert stored(dsn)[0]["payload"] == {"secret": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("", "{}"), "1 to 200 characters"),
        (("t", "{}", "--after", "9" * 20), "smaller numbers"),
        (
            ("t", "{}", "--not-before", "2030-01-02T00:00Z", "--not-after", "2030-01-01T00:00Z"),
            "not later than --not-before",
        ),
        (("t", json.dumps({"x": "y" * 3_000_000})), "payload_limit"),
    ],
)
def test_what_the_database_refuses(dsn: str, cli: Cli, words: tuple[str, ...], said: str) -> None:
    """One line with the remedy, exit status 1, and nothing written."""
    (line,) = cli("enqueue", *words, status=1).err.splitlines()
    assert said in line
    assert stored(dsn) == []


def test_a_job_without_the_keys_of_its_type(dsn: str, cli: Cli) -> None:
    """One that only the class can compute is named or left out, for a schedule as well."""
    kind = {"work_type": "mail.send", "queue": "default", "priority": 4, "weight": 1}
    kind["policy"] = {"keys": {"group": None, "tenant": ["t"]}}
    with Session(dsn) as session:
        session.rows("select txqueue.publish(%s)", (json.dumps([kind]),))
    adding = ["schedule", "add", "s", "mail.send", "{}", "--every", "60"]
    for words in (["enqueue", "mail.send", "{}"], adding):
        said = cli(*words, status=1).err
        assert "group key of mail.send is computed by its class" in said
        assert "pass group as an argument" in said
        assert "declare a Key" not in said
        assert run([*words, "--no-keys"], GlobalOptions()) == 0
    assert run(["enqueue", "mail.send", "{}", "--group", "g"], GlobalOptions()) == 0
    assert [(job["group"], job["tenant"]) for job in stored(dsn)] == [(None, None), ("g", "t")]
