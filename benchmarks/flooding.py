"""Strangers who flood a node's port, and what that costs the node and those it knows.

    python -m benchmarks.flooding PORT FRAMES CONNECTIONS

does the flooding, in a process of its own: frames that mean nothing, over connections that end at
the first of them, and idle connections that are opened again whenever the node closes them.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from attrs import define, field, frozen

__all__ = ["Caller", "Figures", "Flooded", "flooded"]

HOST = "127.0.0.1"
BATCH, KINDS, SENDERS = 50, 4_096, 4
REOPENED_A_SECOND = 200
MIB = 1 << 20
PATIENCE = 30.0
EVERY = 0.02


def box(**values: bytes) -> bytes:
    """A box as AMP writes it."""
    pairs = ((name.encode(), value) for name, value in values.items())
    return b"".join(_text(name) + _text(value) for name, value in pairs) + b"\0\0"


def _text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


class Caller:
    """One end of an AMP connection that asks, and reads what comes until it is answered.

    Args:
        connection: A connected socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self._connection = connection
        self._file = connection.makefile("rb")
        self._asked = 0

    def ask(self, command: str, **values: bytes) -> dict[str, bytes]:
        """Send a command; returns the box that answers it.

        Raises:
            OSError: When the connection ends before.
        """
        self._asked += 1
        number = str(self._asked).encode()
        self._connection.sendall(box(_ask=number, _command=command.encode(), **values))
        while True:
            said = self._box()
            if number in (said.get("_answer"), said.get("_error")):
                return said

    def say(self, command: str, **values: bytes) -> None:
        """Send a command that is not answered."""
        self._connection.sendall(box(_command=command.encode(), **values))

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._connection.close()

    def _box(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        while key := self._string():
            found[key.decode()] = self._string()
        return found

    def _string(self) -> bytes:
        head = self._file.read(2)
        if len(head) < 2:
            raise ConnectionError("the node closed the connection")
        return self._file.read(int.from_bytes(head, "big"))


@define
class Waits:
    """How long a caller waited for answers.

    Attributes:
        asked: How many questions.
        answered: How many answers that were no error.
        longest: Seconds.
    """

    asked: int = 0
    answered: int = 0
    longest: float = 0.0

    def time(self, ask: Callable[[], dict[str, bytes]]) -> None:
        """Ask once."""
        began = time.monotonic()
        self.asked += 1
        self.answered += "_answer" in ask()
        self.longest = max(self.longest, time.monotonic() - began)


@frozen
class Figures:
    """What a flood cost.

    Attributes:
        seconds: How long it took.
        frames: How many frames were sent.
        connections: How many connections were opened.
        memory_before: MiB of the master's resident memory.
        memory_after: The same once it is over.
        memory_most: The most that it had meanwhile.
        peer: The calls of a node that it knows.
        operator: Those of an operator.
    """

    seconds: float
    frames: int
    connections: int
    memory_before: float
    memory_after: float
    memory_most: float
    peer: Waits
    operator: Waits

    @property
    def grown(self) -> float:
        """MiB that it has at the end, or had meanwhile, more than before."""
        return max(self.memory_after, self.memory_most) - self.memory_before


@frozen
class Flooded:
    """A node that is to be flooded.

    Attributes:
        pid: Its master.
        port: Where it listens for peers, without TLS.
        admin: The path of its admin socket.
        name: The node that a peer says to be.
        incarnation: The run of that, registered after the node.
    """

    pid: int
    port: int
    admin: Path
    name: str = "peer"
    incarnation: int = field(default=0)

    def peer(self) -> Caller:
        """Connect as a node that the database names."""
        caller = Caller(socket.create_connection((HOST, self.port)))
        number = str(self.incarnation).encode()
        # The first time has the node look it up.
        while "_answer" not in caller.ask(
            "Hello", name=self.name.encode(), incarnation=number, version=b""
        ):
            time.sleep(EVERY)
        return caller

    def operator(self) -> Caller:
        """Connect to its admin socket."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.admin))
        return Caller(connection)


def flooded(node: Flooded, frames: int, connections: int) -> Figures:
    """Flood a node, and time what those that it knows ask meanwhile.

    Args:
        node: Which.
        frames: How many frames that mean nothing.
        connections: How many idle connections.
    """
    peer, operator = Waits(), Waits()
    with (
        closing(node.peer()) as known,
        closing(node.operator()) as person,
        _asking(peer, _peer_s(known)),
        _asking(operator, lambda: person.ask("Inspect")),
    ):
        time.sleep(1)
        before, began = memory(node.pid), time.monotonic()
        words = [str(node.port), str(frames), str(connections)]
        command = [sys.executable, "-m", "benchmarks.flooding", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as it:
            most = before
            while it.poll() is None:
                most = max(most, memory(node.pid))
                time.sleep(EVERY)
            assert it.stdout is not None
            sent = json.loads(it.stdout.read())
        took = time.monotonic() - began
        time.sleep(1)
    return Figures(
        round(took, 1),
        sent["frames"],
        sent["connections"],
        before,
        memory(node.pid),
        most,
        peer,
        operator,
    )


def memory(pid: int) -> float:
    """Return the MiB of resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024 / MIB


@contextmanager
def _asking(waits: Waits, ask: Callable[[], dict[str, bytes]]) -> Iterator[None]:
    """Ask again and again, in a thread, until the block is over."""
    is_over = threading.Event()
    broken: list[Exception] = []

    def run() -> None:
        try:
            while not is_over.wait(EVERY):
                waits.time(ask)
        except Exception as error:
            broken.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if broken:
        raise broken[0]


def _peer_s(caller: Caller) -> Callable[[], dict[str, bytes]]:
    told_at = float("-inf")

    def ask() -> dict[str, bytes]:
        nonlocal told_at
        if time.monotonic() - told_at > 1:
            told_at = time.monotonic()
            caller.say("ReportLoad", load=b'{"outstanding": 0, "limit": 0}')
        return caller.ask("Take", assignments=b"")

    return ask


def nonsense(chance: random.Random) -> bytes:
    """One frame that no honest end sends."""
    some = chance.randbytes(chance.randrange(1, 200))
    deep = {f"{number:0255d}": some[:4] for number in range(30)}
    return chance.choice(
        [
            some,
            box(_ask=b"1", _command=b"Hello", name=some)[:-1],
            box(_ask=b"1", _command=b"Hello", name=b"x", incarnation=b"7", version=b""),
            box(_ask=b"1", _command=b"Steal", weight=b"1000000"),
            box(_command=b"ReportLoad", load=b"[" * 1_000),
            box(_ask=b"x" * 60_000),
            box(**deep),
            b"\0\1a\xff\xff" + some,
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"\0\0",
        ]
    )


def flood(port: int, frames: int, idle: int) -> dict[str, int]:
    """Send a number of frames while connections are held open; return how many."""
    chance = random.Random(4)
    kinds = [nonsense(chance) for _ in range(KINDS)]
    is_over = threading.Event()
    held = [0]
    holder = threading.Thread(target=_hold, args=(port, idle, is_over, held))
    holder.start()
    with ThreadPoolExecutor(SENDERS) as senders:
        sent = senders.map(lambda seed: _send(port, kinds, seed), range(-(-frames // BATCH)))
        opened = sum(sent)
    is_over.set()
    holder.join()
    return {"frames": -(-frames // BATCH) * BATCH, "connections": opened + held[0]}


def _send(port: int, kinds: Sequence[bytes], seed: int) -> int:
    """Send some frames over one connection; returns how many connections that took."""
    data = b"".join(random.Random(seed).choices(kinds, k=BATCH))
    try:
        with closing(socket.create_connection((HOST, port), PATIENCE)) as connection:
            connection.settimeout(PATIENCE)
            with suppress(OSError):
                connection.sendall(data)
    except OSError:
        return 0
    return 1


def _hold(port: int, count: int, is_over: threading.Event, opened: list[int]) -> None:
    """Hold connections that say nothing; one that the node closes is opened again."""
    held: list[socket.socket] = []
    while not is_over.is_set():
        held = [each for each in held if _is_open(each)]
        for _ in range(min(count - len(held), count if opened[0] < count else REOPENED_A_SECOND)):
            with suppress(OSError):
                connection = socket.create_connection((HOST, port), 10)
                connection.setblocking(False)
                held.append(connection)
                opened[0] += 1
        is_over.wait(1)
    for each in held:
        each.close()


def _is_open(connection: socket.socket) -> bool:
    try:
        is_open = bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        is_open = False
    if not is_open:
        connection.close()
    return is_open


if __name__ == "__main__":
    print(json.dumps(flood(*(int(word) for word in sys.argv[1:4]))))
