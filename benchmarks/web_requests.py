"""A FastAPI application under load, with a restart of the database's server in between.

    python -m benchmarks.web_requests [seconds [requests per second [awaiting clients]]]

Runs a server, a node with a worker, and the application in one process of uvicorn. Requests that
enqueue come at a fixed rate, whatever the answers; each awaiting client enqueues and gets the
result, again and again. A request that is refused or lost is repeated with its key. Prints the time
for which each step of a request had the event loop; how late the loop ran a timer, beside the same
of an idle process, as the machine may be busy; the times of answers outside of the restart; and
what was lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, field
from rich.console import Console

from benchmarks.web_app import delays
from txqueue.demo.environment import TemporarySchema
from txqueue.demo.node import RunningNode
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate
from txqueue_torture.server import Server, short_folder

APP: Final = "benchmarks.web_app"
ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = "create table orders (id bigint generated always as identity, key text unique)"
LISTENING: Final = """
    select count(*) from pg_stat_activity where application_name = 'txqueue client listener'
"""
LOST: Final = """
    select (select count(*) from orders),
           (select count(*) from txqueue.job where state = 'done'),
           (select count(*) from txqueue.job),
           (select count(*) from orders where not exists (
               select from txqueue.job where (payload ->> 'order_id')::bigint = orders.id))
"""
AGAIN: Final = 0.2
"""Seconds after which a request that failed is repeated."""
IDLE: Final = "import benchmarks.web_requests as own; own.idle()"


@define
class Client:
    """Sends requests over kept connections, and repeats those that fail.

    Attributes:
        path: The application's socket.
        kept: Connections that are free.
        times: Milliseconds of each answer to a request that was sent once, with its moment.
        repeated: How many requests were sent again.
    """

    path: Path
    kept: list[Any] = field(factory=list)
    times: list[tuple[float, float]] = field(factory=list)
    repeated: int = 0

    async def ask(self, method: str, target: str) -> Any:
        """Send a request until it succeeds; return the answer."""
        began, is_first = time.monotonic(), True
        while True:
            try:
                status, answer = await self._sent(method, target)
            except (OSError, EOFError):
                status, answer = 0, None
            if status in (200, 201):
                if is_first and method == "POST":
                    self.times.append((began, (time.monotonic() - began) * 1000))
                return answer
            is_first = False
            self.repeated += 1
            await asyncio.sleep(AGAIN)

    async def _sent(self, method: str, target: str) -> tuple[int, Any]:
        pair = self.kept.pop() if self.kept else await asyncio.open_unix_connection(self.path)
        reader, writer = pair
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        self.kept.append(pair)
        return int(head.split()[1]), json.loads(body) if body[:1] in b"[{" else None


async def enqueueing(client: Client, seconds: float, rate: int) -> int:
    """Send requests that enqueue, at a rate; return how many, once all have succeeded."""
    began, sent = time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        while (passed := time.monotonic() - began) < seconds:
            while sent < passed * rate:
                group.create_task(client.ask("POST", f"/orders?key=e{sent}"))
                sent += 1
            await asyncio.sleep(0.002)
    return sent


async def awaiting(client: Client, seconds: float, name: int) -> int:
    """Enqueue and get the result, again and again; return how often."""
    began, rounds = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        placed = await client.ask("POST", f"/orders?key=a{name}-{rounds}")
        answer = await client.ask("GET", f"/jobs/{placed['job']}")
        assert answer == {"result": placed["order"]}
        rounds += 1
    return rounds


async def restarted(server: Server, after: float) -> tuple[float, float]:
    """Restart the server; return when it stopped, and when it was back."""
    await asyncio.sleep(after)
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    return began, time.monotonic()


async def listeners(dsn: str, seconds: float) -> int:
    """Return the largest number of sessions that listen for ends, seen each second."""
    most, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        await asyncio.sleep(1)
        try:
            most = max(most, await asyncio.to_thread(asked, dsn, LISTENING))
        except Exception:
            continue
    return most


def asked(dsn: str, sql: str) -> int:
    """Return the value of a statement."""
    with Session(dsn) as session:
        return int(session.value(sql))


def idle() -> None:
    """Time the loop of a process that does nothing else, until it is ended; print the delays."""

    async def timed() -> None:
        found: list[float] = []
        timing = asyncio.create_task(delays(found))
        await asyncio.to_thread(sys.stdin.read)
        timing.cancel()
        print(json.dumps(found))

    asyncio.run(timed())


def shape(values: list[float]) -> dict[str, float]:
    """Return the quantiles of milliseconds, and how many were over 20."""
    ordered = sorted(values)
    places = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    found = {name: round(ordered[int(part * len(ordered))], 2) for name, part in places.items()}
    return {
        **found,
        "max": round(ordered[-1], 1),
        "over 20 ms": sum(value > 20 for value in ordered),
        "of": len(ordered),
    }


@contextmanager
def served(dsn: str, folder: Path) -> Iterator[Path]:
    """Run the application; yield its socket."""
    path = folder / "web.sock"
    command = [sys.executable, "-m", "uvicorn", "--factory", f"{APP}:application"]
    process = subprocess.Popen(
        [*command, "--uds", str(path), "--no-access-log", "--log-level", "warning"],
        cwd=ROOT,
        env={**os.environ, "TXQUEUE_DSN": dsn},
    )
    try:
        while not path.exists():
            time.sleep(0.05)
        yield path
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def idling() -> AsyncIterator[list[float]]:
    """Run an idle process beside the block; its delays are in the list at the end."""
    found: list[float] = []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        IDLE,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    yield found
    output, _ = await process.communicate(b"")
    found += json.loads(output)


async def measured(server: Server, path: Path, seconds: float, rate: int, clients: int) -> Any:
    """Run the load; return the figures."""
    client = Client(path)
    await client.ask("POST", "/orders?key=first")
    await client.ask("GET", "/jobs/1")
    client.times.clear()
    await client.ask("GET", "/times")
    async with idling() as own, asyncio.TaskGroup() as group:
        began = time.monotonic()
        sending = group.create_task(enqueueing(client, seconds, rate))
        waits = [group.create_task(awaiting(client, seconds, name)) for name in range(clients)]
        restarting = group.create_task(restarted(server, seconds / 2))
        listening = group.create_task(listeners(server.dsn, seconds))
    found = await client.ask("GET", "/times")
    gone, back = restarting.result()
    calm = [took for at, took in client.times if not gone - 1 < at < back + 3]
    return {
        "requests": sending.result(),
        "per second, with their repetitions": round(sending.result() / (time.monotonic() - began)),
        "results": sum(wait.result() for wait in waits),
        "repeated": client.repeated,
        "server away, s": round(back - gone, 2),
        "connections that listen": listening.result(),
        "answers, ms": shape(calm),
        "steps of requests, ms of the processor": shape(found["steps"]),
        "loop late, ms": shape(found["delays"]),
        "idle process late, ms": shape(own),
    }


def main(seconds: float = 20.0, rate: int = 500, clients: int = 50) -> None:
    """Measure and print."""
    with short_folder() as folder, Server(folder / "pg") as server:
        migrate(server.dsn)
        target = TemporarySchema(server.dsn, "txqueue", folder)
        with server.session() as session:
            session.rows(TABLE)
        settings = {"PYTHONPATH": str(ROOT)}
        with (
            RunningNode(target, APP, 1, settings=settings),
            served(server.dsn, folder) as path,
        ):
            figures = asyncio.run(measured(server, path, seconds, rate, clients))
            with server.session() as session:
                while session.live_jobs():
                    time.sleep(0.1)
                orders, done, jobs, without = session.rows(LOST)[0]
    expected = figures["requests"] + figures["results"] + 1
    figures |= {
        "lost": {"orders": expected - orders, "jobs": orders - jobs, "not done": jobs - done},
        "orders without a job": without,
    }
    Console().print_json(data=figures)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
