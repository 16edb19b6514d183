"""Acts of operators through any of three nodes, and their effects in the database."""

import getpass
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest
import pytest_twisted
from psycopg2.extensions import parse_dsn

from tests.cluster import commands
from tests.cluster.app import Noop, Noted
from tests.cluster.conftest import LIMIT, cluster
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node
from tests.waiting import eventually, within
from txqueue import WorkQueue
from txqueue.admin import Admin
from txqueue.errors import NodeUnavailable

ME: Final = f"cancelled by {getpass.getuser()}"
Trio = list[Node]


@pytest.fixture(scope="module")
def trio(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three nodes that serve the same queues."""
    with cluster(shared_db, tmp_path_factory.mktemp("trio")) as nodes:
        # A short lease, because a node reads requests sent to other nodes at its heartbeats.
        started = [
            nodes.start("--workers", "1", "--queues", "default,other", TXQUEUE_LEASE="10")
            for _ in range(3)
        ]
        for node in started:
            pytest_twisted.blockon(within(LIMIT, node.up()))
        yield started


def endpoint(node: Node) -> str:
    """Where it listens for operators."""
    return f"unix:{node.folder / node.name}.sock"


def called(
    *words: str, node: Node | None = None, settings: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """Run `txqueue`, through a node if one is given."""
    named = {} if node is None else {"TXQUEUE_NODE": endpoint(node)}
    return commands.called(*words, **{**named, **(settings or {})})


def told(node: Node, *words: str, status: int = 0) -> Any:
    """Run `txqueue --json` through a node; returns the document."""
    done = called(*words, "--json", node=node)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


async def ended(db: Database, job_id: int) -> dict[str, Any]:
    """Wait until a job has ended; returns its row."""
    final = ("done", "failed", "cancelled")
    await eventually(lambda: db.job(job_id)["state"] in final, PATIENCE)
    return db.job(job_id)


async def holder(db: Database, job_id: int, trio: Trio) -> tuple[Node, Node]:
    """Wait until a job has run for a beat; returns the node that runs it, and another one."""
    await eventually(lambda: db.job(job_id)["started_at"] is not None, PATIENCE)
    node_id = db.job(job_id)["node_id"]
    (its,) = (node for node in trio if node.info["node_id"] == node_id)
    return its, next(node for node in trio if node is not its)


async def test_a_queue_is_paused_and_resumed(
    trio: Trio, shared_db: Database, shared_queue: WorkQueue
) -> None:
    """Through one node, for all of them; other queues continue. Why is recorded and shown."""
    assert told(trio[0], "pause", "other", "--why", "a trial")["changed"] is True
    held = await shared_queue.enqueue(Noop(), queue="other")
    free = await shared_queue.enqueue(Noop())
    assert (await ended(shared_db, free))["state"] == "done"
    assert shared_db.job(held)["state"] == "ready"
    assert shared_db.value("select is_paused from txqueue.control where key = 'other'")
    assert told(trio[1], "pause", "other")["changed"] is False
    assert told(trio[2], "resume", "other")["changed"] is True
    assert (await ended(shared_db, held))["state"] == "done"
    acts = told(trio[0], "actions", "--subject", "queue other")["actions"]
    me = getpass.getuser()
    by_me = [(me, "resume"), (me, "pause"), (f"{me}: a trial", "pause")]
    assert [(act["who"], act["what"]) for act in acts] == by_me


@pytest.mark.parametrize("through", ["its own node", "another node"])
async def test_a_running_coroutine_is_cancelled(
    trio: Trio, shared_db: Database, shared_queue: WorkQueue, through: str
) -> None:
    """At once by the node that runs it, within a heartbeat by any other; it ends where it waits."""
    job_id = await shared_queue.enqueue(Noted(3600.0))
    its, other = await holder(shared_db, job_id, trio)
    asked = its if through == "its own node" else other
    assert told(asked, "cancel", str(job_id))["requested"] == [job_id]
    job = await ended(shared_db, job_id)
    assert (job["state"], job["error"]) == ("cancelled", ME)
    assert shared_db.runs().get(job_id) == 1
    assert told(asked, "cancel", str(job_id), status=1)["refused"] == [job_id]


async def test_a_node_is_drained_and_undrained(
    trio: Trio, shared_db: Database, shared_queue: WorkQueue
) -> None:
    """Two of three drained through the third: it does all the work."""
    worker, *others = trio
    for node in others:
        assert told(worker, "drain", node.name)["state"] == "draining"
        assert node.info["state"] == "draining"
    ids = await shared_queue.enqueue_many([Noop()] * 200)
    for job_id in ids:
        assert (await ended(shared_db, job_id))["node_id"] == worker.info["node_id"]
    assert {node["state"] for node in told(worker, "nodes")["nodes"]} == {"alive", "draining"}
    for node in others:
        assert told(worker, "undrain", node.name)["changed"] is True
    assert told(worker, "status")["nodes"][0]["state"] == "alive"
    refused = called("drain", "absent", node=worker)
    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        "error: no live node is named absent; see which live: txqueue nodes"
    )


async def test_a_name_that_nothing_has_is_acted_on_with_a_warning(
    trio: Trio, shared_db: Database
) -> None:
    """It may be misspelt; the second time it is known, by its pause."""
    misspelt = "no live node serves othr and it has no jobs; did you mean other?"
    paused, again = (called("pause", "othr", node=trio[0]) for _ in range(2))
    assert (paused.returncode, paused.stderr.splitlines()[0]) == (0, f"warning: {misspelt}")
    assert shared_db.value("select is_paused from txqueue.control where key = 'othr'")
    assert again.stderr == ""
    assert called("resume", "othr", node=trio[0]).stderr.startswith("undo: txqueue undo ")
    tenant = called("limit", "tenant", "acme", "--share", "2", node=trio[1])
    assert tenant.stderr.startswith("warning: the tenant acme has no jobs\n")
    told(trio[1], "limit", "tenant", "acme", "--clear", "all")


async def test_without_a_node_commands_read_the_database_and_cannot_act(
    trio: Trio, shared_db: Database, tmp_path: Path
) -> None:
    """Reading commands fall back and say so; acting ones say what is missing."""
    nowhere = {"TXQUEUE_NODE": f"unix:{tmp_path}/none", "TXQUEUE_DSN": shared_db.dsn}
    for words in (("status",), ("nodes",), ("jobs",)):
        looked = called(*words, "--json", settings=nowhere)
        assert looked.returncode == 0
        assert "no node answers at" in looked.stderr
        assert json.loads(looked.stdout)
    acted = called("pause", "other", settings=nowhere)
    assert (acted.returncode, acted.stdout) == (1, "")
    (line,) = acted.stderr.splitlines()
    assert line.startswith("error: no node answers at")
    assert len(trio) == 3


async def test_a_node_of_another_database_is_not_acted_through(
    trio: Trio, shared_db: Database, migrated_database18: str
) -> None:
    """The refusal names both databases; a looking command answers from the one that is named."""
    node, other = trio[0], parse_dsn(migrated_database18)["dbname"]
    meant = {"TXQUEUE_DSN": migrated_database18}
    for words in (("pause", "other"), ("cancel", "1"), ("drain", node.name)):
        refused = called(*words, node=node, settings=meant)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"database {parse_dsn(shared_db.dsn)['dbname']} at" in refused.stderr
        assert f"not the database {other} at" in refused.stderr
    assert shared_db.rows("select * from txqueue.control where is_paused") == []
    looked = called("nodes", "--json", node=node, settings=meant)
    assert "asking the database instead" in looked.stderr
    assert json.loads(looked.stdout)["nodes"] == []
    away = called("pause", "other", node=node, settings={"TXQUEUE_DSN": "host=/nowhere"})
    assert away.returncode == 1
    assert "whether the node serves the named database cannot be checked" in away.stderr
    own = called("resume", "other", node=node, settings={"TXQUEUE_DSN": shared_db.dsn})
    assert own.returncode == 0
    assert called("health", node=node, settings=meant).stdout == "ready\n"
    unhealthy = called("health", "--ready", "--dsn", migrated_database18, node=node)
    assert unhealthy.returncode == 1
    assert f"and not the database {other} at" in unhealthy.stdout
    for dsn in (shared_db.dsn, "host=/nowhere"):
        assert called("health", "--ready", "--dsn", dsn, node=node).stdout == "ready\n"


async def test_a_program_names_the_queue_that_it_means(trio: Trio, shared_db: Database) -> None:
    """It is not connected to a node of another queue."""
    place, identity = endpoint(trio[0]), shared_db.value("select txqueue.identity()::text")
    async with await Admin.connect(place, identity=identity) as admin:
        assert (await admin.queue()).identity == identity
    with pytest.raises(NodeUnavailable, match="another queue than b1946ac9"):
        await Admin.connect(place, identity="b1946ac9")
