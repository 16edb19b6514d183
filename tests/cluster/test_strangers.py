"""Real nodes and those who mean them harm: floods, a liar with a certificate, and eavesdroppers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attrs import evolve

from benchmarks.flooding import Flooded, flooded
from tests.cluster.app import Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, TLS, Node, Nodes
from tests.cluster.peers import certificates, free_port, hand
from tests.waiting import eventually, running_reactor
from txqueue import WorkQueue
from txqueue.wire.commands import Hello, NotAPeer, ReportLoad, Steal, Take, WakePeer
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.pipe import Pipe, PipeFactory
from txqueue.wire.tls import Credentials

CANARY = "s3cr3t-4111111111111111"
# Of two nodes the one with the greater number connects to the other.
GREATEST = count(2_147_483_000)
FRAMES, CONNECTIONS, MOST_MIB = 50_000, 300, 20


def registered(db: Database, name: str, port: int) -> int:
    """Register a node that does not run; return its incarnation."""
    row = db.row(
        "select * from txqueue.register_node(%s, 'host', 0, %s, 3600, 1, '{}', '[]', '', %s, %s)",
        *(name, port, "127.0.0.1", next(GREATEST)),
    )
    return int(row["incarnation"])


async def test_a_flood_harms_no_other_connection(nodes: Nodes, db: Database) -> None:
    """Memory stays bounded, a peer and an operator are answered, jobs run."""
    port = free_port()
    node = await nodes.start("--workers", "1", "--listen", f"tcp:{port}").up()
    admin = node.folder / f"{quote(node.name)}.sock"
    run = registered(db, "peer", free_port())
    figures = flooded(Flooded(node.pid, port, admin, "peer", run), FRAMES, CONNECTIONS)
    assert figures.frames == FRAMES
    assert figures.connections >= CONNECTIONS + FRAMES // 100
    assert figures.grown < MOST_MIB, figures
    for waits in (figures.peer, figures.operator):
        assert 0 < waits.asked == waits.answered, figures
    job_id = db.enqueue(Noted.work_type, '{"seconds": 0}')
    await eventually(lambda: db.runs("end") == {job_id: 1}, PATIENCE)


class Liar:
    """A node with a valid certificate whose master is this test."""

    def __init__(self, name: str, incarnation: int, target: Endpoint) -> None:
        self._target = target
        self._name = name
        self._incarnation = incarnation
        self.pipe = Pipe({ReportLoad: lambda load: {}}, lost=lambda: None)  # noqa: ARG005

    async def meets(self) -> None:
        """Send the hello until the node accepts it."""

        async def is_met() -> bool:
            said = {"name": self._name, "incarnation": self._incarnation, "version": ""}
            try:
                await self.pipe.say(Hello, **said)
            except NotAPeer:
                return False
            return True

        await self._target.connect(running_reactor(), PipeFactory(self.pipe), 30)
        await eventually(is_met, PATIENCE)

    async def says_take(self, *assignments: int) -> None:
        """Hand over assignments, and wait until the message is processed."""
        self.pipe.say(ReportLoad, load="{}")
        await self.pipe.say(Take, assignments=",".join(map(str, assignments)))

    def hang_up(self) -> None:
        """Go."""
        transport: Any = self.pipe.transport
        transport.abortConnection()


@asynccontextmanager
async def lying_to(node: Node, db: Database, port: int, folder: Path) -> AsyncIterator[Liar]:
    """A connected peer with the certificate of a registered node."""
    run = registered(db, "liar", free_port())
    target = Endpoint(None, port, credentials=Credentials(folder, "liar"))
    liar = Liar("liar", run, target)
    await liar.meets()
    yield liar
    liar.hang_up()


def standing(db: Database) -> list[dict[str, Any]]:
    """Whose each job is, and how often it has run."""
    return db.rows(
        "select job_id, state, assignment, incarnation, attempt, deaths"
        " from txqueue.job order by job_id"
    )


async def test_a_liar_with_a_certificate_makes_nothing_run(
    nodes: Nodes, db: Database, queue: WorkQueue, tmp_path: Path
) -> None:
    """It names jobs that are absent, finished, running, waiting, or another node's."""
    port = free_port()
    folder = certificates(tmp_path / "tls", "venus", "liar")
    given = ("--workers", "1", "--listen", f"tcp:{port}", "--tls-dir", str(folder))
    venus = await nodes.start(*given, name="venus", **TLS).up()
    done = await queue.enqueue(Noted())
    await queue.wait(done, PATIENCE)
    running = await queue.enqueue(Noted(3600))
    await eventually(lambda: db.job(running)["state"] == "assigned", PATIENCE)
    unserved = await queue.enqueue(Noted(), queue="unserved")
    other = registered(db, "mars", free_port())
    db.execute(
        "update txqueue.node_info set work_types = %s, queues = '{default}' where name = 'mars'",
        [Noted.work_type],
    )
    mars = evolve(venus, name="mars")
    (foreign,) = hand(db, mars, 1, 0.0)
    before = standing(db)
    runs = db.runs()
    numbers = [row["assignment"] for row in before if row["assignment"] is not None]
    assert len(numbers) == 3
    async with lying_to(venus, db, port, folder) as liar:
        for _ in range(3):
            await liar.says_take(*numbers, max(numbers) + 1, 2**63 - 1)
        liar.pipe.say(WakePeer)
        answer = await liar.pipe.say(Steal, weight=1000)
        assert answer == {"assignments": "", "weight": 0}
        # Valid messages still work: after all of the above, this one runs.
        (honest,) = hand(db, venus, 1, 0.0)
        await liar.says_take(db.job(honest)["assignment"])
        await queue.wait(honest, PATIENCE)
    assert db.runs() == {**runs, honest: 1}
    assert [row for row in standing(db) if row["job_id"] != honest] == before
    assert db.job(foreign)["incarnation"] == other
    assert db.job(unserved)["state"] == "ready"
    db.value("select txqueue.cancel(%s, 'test')", [running])
    await eventually(lambda: db.job(running)["state"] == "cancelled", PATIENCE)
