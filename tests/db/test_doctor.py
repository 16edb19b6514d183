"""``txqueue doctor``: faults planted one at a time on a real database, each found by one check."""

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Final

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from tests.db.planted_faults import (
    HEALTHY,
    OF_SECONDS,
    PLANTS,
    Plant,
    execute,
    opened,
    planted,
    setting,
)
from tests.fixtures.databases import Templates, fresh_database
from tests.fixtures.servers import data_folder
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.embedded import EmbeddedServer
from txqueue.policy.findings import schema as tables
from txqueue.policy.findings import server as horizon
from txqueue.policy.findings.catalogue import TOPICS
from txqueue.store.reads.examination import facts as examination
from txqueue.store.schema.migrations import migrate
from txqueue.wire.certificate_authority import issue, make_authority
from txqueue_torture.needs import lacking
from txqueue_torture.server import Server, dsn_of, pgbouncer, short_folder

# The tests' own server: its commits are durable, and faults of a whole server disturb no other
# test. Its queue of notifications is the smallest, as a test fills it.
SETTINGS: Final = {"max_prepared_transactions": "10", "max_notify_queue_pages": "64"}

Doctor = Callable[..., dict[str, Any]]


@contextmanager
def own_server(version: int, settings: Mapping[str, str]) -> Iterator[str]:
    """Start a server in a temporary folder, and yield its DSN."""
    with data_folder() as folder, EmbeddedServer(folder / "pg", version, settings) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def server18() -> Iterator[str]:
    """A PostgreSQL 18 server of these tests' own."""
    with own_server(18, SETTINGS) as dsn:
        yield dsn


@pytest.fixture(scope="module", params=[16, 18])
def durable_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of these tests' own with default settings, of each version."""
    with own_server(request.param, {}) as dsn:
        yield dsn


@pytest.fixture
def installation(server18: str, templates: Templates) -> Iterator[str]:
    """The DSN of a healthy installation."""
    with fresh_database(server18, templates.name(server18)) as dsn:
        execute(dsn, HEALTHY)
        yield dsn


@pytest.fixture
def doctor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Call the command; returns what each check says that finds something."""
    for name in ("DSN", "SCHEMA", "TLS_DIR", "PAYLOAD_KEY", "NODE"):
        monkeypatch.delenv(f"TXQUEUE_{name}", raising=False)
    monkeypatch.setenv("TXQUEUE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def call(dsn: str, *words: str, exits: int = 0, made: bool = True) -> dict[str, Any]:
        status = run(["--dsn", dsn, "--json", "doctor", *words], GlobalOptions())
        printed = capsys.readouterr()
        assert not printed.err
        checks = json.loads(printed.out)["checks"]
        assert [each["check"] for each in checks] == NAMES
        assert not made or [each for each in checks if each["unchecked"] is not None] == []
        found = {each["check"]: text_of(each) for each in checks if each["findings"]}
        assert status == exits, found
        return found

    return call


NAMES: Final = [check.name for checks in TOPICS.values() for check in checks]


def text_of(entry: Mapping[str, Any]) -> str:
    """Return what an entry of the document says is wrong."""
    return "\n".join(each["what"] for each in entry["findings"])


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_a_planted_fault_is_found_by_its_check_only(
    installation: str, doctor: Doctor, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its exit status: 1 for a fault, 0 for a warning."""
    monkeypatch.setattr(tables, "FEW_DEAD", 200)
    if plant.check in OF_SECONDS:
        monkeypatch.setattr(horizon, "LONG", 0.0)
    with planted(installation, plant):
        found = doctor(installation, exits=plant.exits)
    assert found.keys() == {plant.check}, found
    assert plant.says in found[plant.check]


def test_a_healthy_installation_has_no_findings(
    durable_server: str, templates: Templates, doctor: Doctor, tmp_path: Path
) -> None:
    """With a node, a ready job, a schedule, an archive and certificates."""
    folder = tmp_path / "tls"
    make_authority(folder)
    issue(folder, "node", "n1")
    archive = f"update txqueue.setting set archive = '{tmp_path / 'archive'}'"
    with fresh_database(durable_server, templates.name(durable_server)) as database:
        assert doctor(database) == {}
        execute(database, [*HEALTHY, archive])
        assert doctor(database, "--tls-dir", str(folder)) == {}


def test_every_other_check_is_planted() -> None:
    """These have tests of their own, here or in `tests/unit/policy`."""
    apart = {"connection", "server-version", "own-rights", "clock", "notifications", "jit"}
    apart |= {"encoding", "session-settings"}
    apart |= {"running-nodes", "dead-nodes", "running-workers", "application-versions"}
    apart |= {"standby-feedback", "certificates", "private-keys", "admin-sockets"}
    assert {plant.check for plant in PLANTS} == set(NAMES) - apart


def test_a_schema_of_another_name_is_healthy(server18: str, doctor: Doctor) -> None:
    """Its roles have other names too."""
    with fresh_database(server18) as dsn:
        migrate(dsn, "letters")
        assert doctor(dsn, "--schema", "letters") == {}
        execute(dsn, ["grant delete on letters.job to letters_worker"])
        assert doctor(dsn, "--schema", "letters").keys() == {"excess-rights"}


def test_commits_that_hang_do_not_keep_the_command(installation: str, doctor: Doctor) -> None:
    """A commit that waits for a standby holds the lock that every notification takes."""
    change, undo = setting("synchronous_standby_names", "'s1'")
    with ExitStack() as stack:
        hanging = stack.enter_context(closing(psycopg2.connect(installation)))
        stack.callback(execute, installation, undo)
        execute(installation, change)
        notifying = Thread(target=notify, args=(hanging,))
        stack.callback(notifying.join)
        stack.callback(execute, installation, undo)
        notifying.start()
        wait_until_hanging(installation)
        assert doctor(installation, exits=1, made=False).keys() == {"synchronous-standby"}


def notify(session: Any) -> None:
    """Write and notify in a transaction whose commit waits for a standby."""
    with session.cursor() as cursor:
        cursor.execute("create table written (); notify something")
    session.commit()


def wait_until_hanging(dsn: str) -> None:
    """Wait until a commit waits for a standby."""
    with closing(opened(dsn, ())) as session, session.cursor() as cursor:
        for _ in range(100):
            cursor.execute("select from pg_stat_activity where wait_event = 'SyncRep'")
            if cursor.rowcount:
                return
            cursor.execute("select pg_sleep(0.05)")
    raise AssertionError("no commit waits for a standby")


def test_without_the_schema_only_its_absence_is_a_fault(server18: str, doctor: Doctor) -> None:
    """What needs the schema could not be checked."""
    with fresh_database(server18) as dsn:
        found = doctor(dsn, exits=1, made=False)
    assert found.keys() == {"schema-version"}
    assert "is not in this database" in found["schema-version"]


def test_a_server_that_does_not_answer_is_one_fault(doctor: Doctor) -> None:
    """The checks of this host are made all the same."""
    dsn = "postgresql://127.0.0.1:1/none"
    assert doctor(dsn, exits=1, made=False).keys() == {"connection"}


def test_a_role_without_rights_is_a_fault(installation: str, doctor: Doctor) -> None:
    """It may read nothing else of txqueue's."""
    execute(installation, ["create role stranger login"])
    try:
        dsn = make_dsn(installation, user="stranger")
        assert doctor(dsn, exits=1, made=False).keys() == {"own-rights"}
        execute(installation, ["grant txqueue_read to stranger"])
        assert doctor(dsn, made=False) == {}
        execute(installation, ["grant pg_read_all_stats to stranger"])
        assert doctor(dsn) == {}
    finally:
        execute(installation, ["drop role stranger"])


def test_a_locked_table_harms_its_own_check_only(
    installation: str, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    """The query gives up within a second, and the others run."""
    locked = ["begin", "lock table txqueue.control in access exclusive mode"]
    with closing(opened(installation, locked)):
        assert doctor(installation, made=False) == {}
        run(["--dsn", installation, "doctor"], GlobalOptions())
    said = capsys.readouterr().out
    [unchecked] = re.findall(r"could not be checked: (.*)", said)
    names = unchecked.split(", ")
    assert {"sequences", "blocked-jobs", "pauses"} <= set(names)
    assert said.count("why: an open transaction") == 1
    assert (
        f"{len(NAMES)} checks: {len(NAMES) - len(names)} ok, 0 with warnings, 0 with faults,"
        f" {len(names)} not made" in said
    )


def test_clocks_that_differ_are_a_warning(
    installation: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this host and of the server."""
    actual = examination.wall_clock
    monkeypatch.setattr(examination, "wall_clock", lambda: actual() + 60)
    found = doctor(installation)
    assert found.keys() == {"clock"}
    assert "ahead of the server's" in found["clock"]


@pytest.mark.parametrize(("days", "says"), [(0, "expired"), (29, "expires in 28 d")])
def test_certificates_near_their_end_are_found(
    installation: str, doctor: Doctor, tmp_path: Path, days: int, says: str
) -> None:
    """Under thirty days a warning, then a fault."""
    folder = tmp_path / "tls"
    make_authority(folder)
    issue(folder, "node", "n1", days)
    found = doctor(installation, "--tls-dir", str(folder), exits=int(not days))
    assert found.keys() == {"certificates"}
    assert f"n1.pem {says}" in found["certificates"]


@pytest.mark.parametrize("name", ["OpenSSL", "cryptography"])
def test_a_package_that_tls_lacks_is_a_fault(
    installation: str, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Once, however many certificates there are, and not as if they were none."""
    folder = tmp_path / "tls"
    make_authority(folder)
    issue(folder, "node", "n1")
    monkeypatch.setitem(sys.modules, name, None)
    found = doctor(installation, "--tls-dir", str(folder), exits=1)
    assert found == {"certificates": f"TLS needs the package {name}, which is not installed"}


def test_a_private_key_that_others_can_read_is_a_fault(
    installation: str, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may come from the environment."""
    made = make_authority(tmp_path / "tls")
    made.key.chmod(0o640)
    monkeypatch.setenv("TXQUEUE_TLS_DIR", str(tmp_path / "tls"))
    found = doctor(installation, exits=1)
    assert found.keys() == {"private-keys"}
    assert "ca.key has mode 0640" in found["private-keys"]


def test_an_admin_socket_that_others_can_use_is_a_fault(
    installation: str, doctor: Doctor, tmp_path: Path
) -> None:
    """In the state directory."""
    path = tmp_path / "state" / "n1.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o666)
        assert doctor(installation, exits=1).keys() == {"admin-sockets"}
        path.chmod(0o600)
        assert doctor(installation) == {}


def test_a_payload_key_that_is_none_is_a_fault(
    installation: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not a work type is encrypted."""
    monkeypatch.setenv("TXQUEUE_PAYLOAD_KEY", "secret")
    found = doctor(installation, exits=1)
    assert found.keys() == {"payload-keys"}
    assert "secret" not in found["payload-keys"]


@pytest.mark.skipif(lacking(["pgbouncer"]) is not None, reason="there is no PgBouncer")
def test_a_pooler_that_loses_notifications_is_found(doctor: Doctor) -> None:
    """PgBouncer in transaction mode; sessions of txqueue then leave settings as they are."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        server = stack.enter_context(Server(folder / "pg"))
        migrate(server.dsn)
        execute(server.dsn, ["alter database {db} set jit = on"])
        execute(server.dsn, ["alter database {db} set array_nulls = off"])
        pooler = stack.enter_context(pgbouncer(server, folder / "pb", "transaction"))
        found = doctor(dsn_of(pooler), exits=1)
    # This server is not durable.
    assert found.keys() == {"notifications", "jit", "session-settings", "durability"}
    assert "array_nulls is 'off'" in found["session-settings"]


def test_people_read_what_is_wrong_why_and_how_to_fix_it(
    installation: str, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    """The database and what named it, the faults, the warnings, then a summary."""
    execute(
        installation,
        [
            "select txqueue.pause('queue', 'default', 'ann')",
            "grant create on schema txqueue to public",
        ],
    )
    assert run(["--dsn", installation, "doctor"], GlobalOptions()) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("database ")
    assert first.endswith(", by --dsn")
    assert [line.split(":")[0] for line in lines if not line.startswith(" ") and line] == [
        "fault    public-rights",
        "warning  pauses",
        f"{len(NAMES)} checks",
    ]
    assert "         why: every login of the database can use them" in lines
    assert any(line.startswith("         fix: resume it: txqueue resume") for line in lines)


def test_a_folder_that_does_not_exist_is_refused(
    installation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped path must not pass for a host without certificates."""
    wrong = str(tmp_path / "absent")
    assert run(["--dsn", installation, "doctor", "--tls-dir", wrong], GlobalOptions()) == 2
    assert f"{wrong} is not a folder" in capsys.readouterr().err
