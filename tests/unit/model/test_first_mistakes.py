"""Mistakes of new users: each error says what is wrong and what to do instead."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from attrs import define
from twisted.internet.defer import maybeDeferred, succeed
from twisted.scripts.twistd import ServerOptions  # type: ignore[attr-defined]  # not in __all__

from txqueue import WorkItem
from txqueue.errors import ConfigurationError, InvalidWork
from txqueue.store.enqueueing.calls import job_object
from txqueue.system.settings import Settings
from txqueue.tap import Options
from txqueue.worker.handlers.runtimes import kind_of

FAR = datetime(2999, 1, 1, tzinfo=UTC)


@define
class Mail(WorkItem):
    """Some work."""

    async def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"not_before": "2030-01-01"}, "give an aware datetime, such as datetime.now"),
        ({"not_before": datetime(2999, 1, 1)}, "has no time zone; .*datetime.now"),
        ({"not_after": date(2030, 1, 1)}, "give an aware datetime"),
        ({"not_before": FAR, "not_after": FAR}, "is not later than not_before"),
        ({"priority": "high"}, "use Priority.LOW, NORMAL or HIGH"),
        ({"priority": True}, "priority True is not valid; .* from 0 to 9"),
        ({"weight": 2**40}, "weight 1099511627776 is not valid; .* from 1 to 1000000"),
        ({"queue": ""}, "queue '' is not valid; .*a string of 1 to 200 characters"),
        ({"created_by": "a\0b"}, "is not valid; .*without NUL"),
        ({"tenant": "\ud800"}, "is not valid; .*without NUL"),
        ({"unique": "u" * 1001}, "is not valid; .*a string of 1 to 1000 characters"),
        ({"group": 7}, "give a string, such as f'account:"),
        ({"timeout": timedelta(0)}, "give seconds above 0"),
        ({"after": [2**63]}, "is not valid; .*numbers of jobs"),
        ({"countdown": 5}, "write not_before, an aware datetime; or use after"),
        ({"max_retries": 5}, "attempts=5 at enqueue"),
        ({"prioritty": 3}, "enqueue has no option prioritty; did you mean priority?"),
    ],
    ids=str,
)
def test_a_wrong_option(options: dict[str, Any], said: str) -> None:
    """It is refused before anything is written, with what to give."""
    with pytest.raises(InvalidWork, match=said):
        job_object(Mail(), options)


def test_a_timeout_may_be_a_length_of_time() -> None:
    """At enqueue and in a class."""
    job = job_object(Mail(), {"timeout": timedelta(minutes=2)})
    assert job["options"] == {"timeout": 120.0}

    class Patient(WorkItem):
        timeout = timedelta(minutes=1)
        heartbeat = timedelta(seconds=5)

    assert [Patient.timeout, Patient.heartbeat] == [60.0, 5.0]


def _yields() -> None:
    class Yields(WorkItem):
        async def perform(self, job: Any) -> AsyncIterator[int]:
            yield 1


def _yields_plainly() -> None:
    class YieldsPlainly(WorkItem):
        def perform(self, job: Any) -> Iterator[int]:
            yield 1


def _takes_nothing() -> None:
    class TakesNothing(WorkItem):
        async def perform(self) -> None:  # type: ignore[override] # the mistake
            """Do nothing."""


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_yields, "perform is an asynchronous generator"),
        (_yields_plainly, "perform is a generator, because it yields"),
        (_takes_nothing, r"perform does not take the job; write def perform\(self, job\)"),
    ],
)
def test_a_class_that_cannot_work(made: Callable[[], None], said: str) -> None:
    """It is refused as it is defined."""
    with pytest.raises(InvalidWork, match=said):
        made()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("retries", 3, r"retry = Retry\(attempts=5\)"),
        ("max_retries", 0, r"retry = Retry\(attempts=5\)"),
        ("time_limit", timedelta(minutes=1), "write timeout"),
        ("queueing_lock", "one", r"unique = Key\(...\)"),
    ],
)
def test_a_policy_by_the_name_of_another_queue(name: str, value: object, said: str) -> None:
    """Nothing would read it; a field of that name, an annotated attribute and a method are used."""
    with pytest.raises(InvalidWork, match=f"nothing reads {name}.*{said}"):
        type("Moved", (WorkItem,), {name: value})
    own = {"__annotations__": {name: ClassVar[object]}}
    for body in ({name: value, **own}, {name: property(lambda _: 1)}):
        type("Moved", (WorkItem,), body)
    fields = define(type("Moved", (WorkItem,), {"__annotations__": {name: object}, name: value}))
    assert getattr(cast("Any", fields)(), name) == value


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--nodaemon", "write it before txqueue: twistd --nodaemon txqueue"),
        ("-n", "write it before txqueue: twistd -n txqueue"),
        ("--wrkers", "option --wrkers not recognized; see: twistd txqueue --help"),
        ("-c", "option -c not recognized; write --workers N; see"),
        ("-Q", "write --queues NAMES"),
        ("--concurrency", "write --workers N"),
        ("worker", "Wrong number of arguments; see"),
    ],
)
def test_an_option_in_the_place_of_a_node_s(option: str, said: str) -> None:
    """One line, without twistd's own hundred."""
    options = Options()
    options.parent = ServerOptions()
    with pytest.raises(SystemExit, match=said):
        options.parseOptions([option])


def test_a_work_queue_in_asyncio() -> None:
    """It would fail with words of asyncio's."""
    program = "import asyncio, txqueue; asyncio.run(txqueue.WorkQueue.connect('dbname=none'))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert "WorkQueue needs Twisted's reactor" in ended.stderr
    assert "use txqueue.aio.Queue here" in ended.stderr


def test_a_class_of_the_program_that_runs() -> None:
    """No node could import it: the job would wait without end."""

    @define
    class Own(WorkItem):
        work_type = "__main__.Own"

    with pytest.raises(InvalidWork, match="define it in a module that nodes import"):
        job_object(Own())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker = 4", "has worker, which is not a setting; did you mean workers"),
        ("xyzzy = 4", "valid settings are admin, app"),
    ],
)
def test_a_setting_that_is_misspelt(tmp_path: Path, text: str, said: str) -> None:
    """It would count for nothing."""
    (tmp_path / "txqueue.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        Settings({}, {}, tmp_path)


def test_a_list_that_names_nothing(tmp_path: Path) -> None:
    """A node would serve no queue."""
    with pytest.raises(ConfigurationError, match="which has no name in it"):
        Settings({"queues": ","}, {}, tmp_path).names("queues", ["default"])


def test_modules_may_be_joined_by_commas() -> None:
    """As queues are."""
    options = Options()
    options.opt_app("a,b")
    options.opt_app("c")
    assert options["app"] == ["a", "b", "c"]


@pytest.mark.parametrize("typed", ["twistd -n txqueue", "txqueue node"])
def test_an_import_that_fails_says_where(tmp_path: Path, typed: str) -> None:
    """The file and the line of the application, below the command that was typed."""
    (tmp_path / "mistaken_app.py").write_text("x = 1\nimport not_there_at_all\n")
    program, *given = typed.split()
    twistd = Path(sys.executable).with_name(program)
    words = [twistd, *given, "--app", "mistaken_app", "--dsn", "host=/nowhere"]
    ended = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=tmp_path,
        env={**os.environ, "TXQUEUE_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stderr.startswith(f"{typed.replace(' -n', '')}: ")
    assert "mistaken_app.py:2)" in ended.stderr


class Sleeps(WorkItem):
    """Awaits what is asyncio's, in the runtime of Twisted."""

    async def perform(self, job: Any) -> None:
        """Sleep a moment."""
        await asyncio.sleep(0)


class SleepsLater(WorkItem):
    """The same, after something of Twisted's."""

    async def perform(self, job: Any) -> None:
        """Sleep a moment."""
        await succeed(None)
        await asyncio.sleep(0)


@pytest.mark.parametrize("cls", [Sleeps, SleepsLater])
async def test_asyncio_in_the_runtime_of_twisted(cls: type[WorkItem]) -> None:
    """It would not wait, or fail with words of a stranger."""
    kind = kind_of(define(cls), cast("Any", None))
    with pytest.raises(TypeError, match=r"declare runtime = Runtime.ASYNCIO"):
        await maybeDeferred(kind.begin, kind.cls(), object())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--poll", "20", "--lease", "30"], "--poll 20 is longer than a third of the lease"),
        (["--app", "there_is_none"], "there_is_none"),
        (["--web", "unix:web", "--web-users", "/nowhere/users"], "/nowhere/users"),
        (["--schema", "pg_own"], "is not a plain identifier"),
    ],
)
def test_a_wrong_option_starts_no_server(tmp_path: Path, options: Sequence[str], said: str) -> None:
    """All of them are checked before the embedded server is made and started."""
    twistd = Path(sys.executable).with_name("twistd")
    folder = tmp_path / "state"
    words = [twistd, "-n", "txqueue", "--embedded", "--state-dir", folder, *options]
    ended = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (ended.returncode, said in ended.stderr) == (1, True), ended.stderr
    assert not (folder / "embedded").exists()
