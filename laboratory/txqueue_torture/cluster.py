"""A highly available cluster: Patroni, etcd and three PostgreSQL servers, all on this host.

Every connection between a member and the rest of the world leads through proxies of that member,
so that a scenario can cut the member off.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import descendants_of, is_alive, open_gate, start_gated, start_watcher
from txqueue_torture.cluster_files import DYNAMIC, etcd_command, haproxy_file, member_file
from txqueue_torture.environment import ScenarioFailed
from txqueue_torture.node import free_port, until
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.server import Server, as_account, program

__all__ = ["Cluster", "Member"]

NAMES: Final = ("m1", "m2", "m3")
STARTS_WITHIN, ANSWERS_WITHIN, ENDS_WITHIN = 90.0, 3.0, 30.0
# Patroni starts PostgreSQL in a session of its own: all whose command line names the folder end,
# and what a postmaster has started, as a stopped backend does not end with it.
_WATCH: Final = """
while read -r _; do :; done
for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    case $pid:$(tr '\\0' ' ' < "$process/cmdline") in
        $$:*) ;;
        *"$1"/*) kill -KILL "$pid" $(cat "$process/task/$pid/children") ;;
    esac
done
"""


class Member:
    """One member of the cluster: a Patroni process and its PostgreSQL server.

    Attributes:
        name: The member's name in the cluster.
        data: The folder of PostgreSQL's data.
        port: PostgreSQL's port, without a proxy.
        api_port: The port of Patroni's REST API, without a proxy.
        clients: The proxy for clients.
        peers: The proxies that lead to PostgreSQL and to Patroni's REST API for other members, and
            from Patroni to etcd.
    """

    def __init__(self, name: str, folder: Path, etcd_port: int, stack: ExitStack) -> None:
        self.name = name
        self.folder = folder / name
        self.data = self.folder / "data"
        self.port, self.api_port = free_port(), free_port()
        targets = (self.port, self.port, self.api_port, etcd_port)
        proxies = [
            stack.enter_context(Proxy(Address(port=port), speaks_postgres=False))
            for port in targets
        ]
        self.clients, *self.peers = proxies
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def postmaster(self) -> int:
        """The postmaster's process id; 0 if the server does not run."""
        with suppress(OSError, ValueError):
            pid = int((self.data / "postmaster.pid").read_text().split("\n")[0])
            return pid if is_alive(pid) else 0
        return 0

    def postgres_pids(self) -> list[int]:
        """Return the process ids of PostgreSQL, its postmaster first."""
        postmaster = self.postmaster
        return [postmaster, *descendants_of(postmaster)] if postmaster else []

    def pids(self) -> list[int]:
        """Return the process ids of Patroni and of PostgreSQL."""
        patroni = [] if self.process is None else [self.process.pid]
        return [*patroni, *self.postgres_pids()]

    def dsn(self) -> str:
        """Return the DSN of this member alone, through the proxy for clients."""
        return _dsn(self.clients.port)

    def session(self) -> Session:
        """Open a connection to this member, whatever its part is, past all proxies."""
        return Session(_dsn(self.port), application_name="txqueue torture")

    def status(self) -> Mapping[str, Any]:
        """Return what the member's Patroni reports; nothing if it does not answer."""
        with suppress(URLError, OSError, ValueError):
            found: dict[str, Any] = json.loads(_asked(self.api_port, "/patroni"))
            return found
        return {}

    @property
    def is_primary(self) -> bool:
        """Whether the member's Patroni says that it is the primary."""
        return self.status().get("role") in ("primary", "master")


class Cluster:
    """Three members, etcd, and their proxies; a context manager.

    Args:
        folder: The folder of all files, with a short path that other accounts may enter.
        settings: Dynamic settings of Patroni that override those of `DYNAMIC`.

    Attributes:
        members: The members, once they are started.
        account: The account that all processes run as.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        self._settings = {**DYNAMIC, **(settings or {})}
        self._undo = ExitStack()
        self._etcd_port, self._etcd_peer_port = free_port(), free_port()
        self._etcd: subprocess.Popen[bytes] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self.members: list[Member] = []
        self.account = -1

    def __enter__(self) -> Self:
        """Start etcd and all members, and wait until two of them follow the primary."""
        with ExitStack() as undo:
            self._start(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Kill all processes of the cluster."""
        self._undo.close()

    def dsn(self, attributes: str = "read-write") -> str:
        """Return the DSN of all members, through the proxies for clients."""
        ports = (member.clients.port for member in self.members)
        # Or a member that hangs costs three seconds of each attempt.
        return f"{_dsn(*ports, attributes=attributes)}&connect_timeout=1"

    def direct_dsn(self) -> str:
        """Return the DSN of all members without proxies, which connects to the primary."""
        return _dsn(*(member.port for member in self.members), attributes="read-write")

    @property
    def primary(self) -> Member:
        """The member that holds the leader's lock, by its own account.

        Raises:
            ScenarioFailed: When there is none.
        """
        for member in self.members:
            if member.is_primary:
                return member
        raise ScenarioFailed("the cluster has no primary")

    @property
    def synchronous(self) -> Member:
        """The synchronous standby.

        Raises:
            ScenarioFailed: When there is none.
        """
        for member in self.members:
            if member.status().get("sync_standby"):
                return member
        raise ScenarioFailed("the cluster has no synchronous standby")

    def switch_over(self) -> str:
        """Make the synchronous standby the primary, by Patroni; return its answer."""
        primary = self.primary
        return _asked(primary.api_port, "/switchover", {"leader": primary.name})

    def kill(self, member: Member) -> str:
        """Kill a member's Patroni and PostgreSQL; return what was killed."""
        assert member.process is not None
        pids = member.pids()
        _kill_all(pids)
        member.process.wait()
        until(lambda: not any(map(is_alive, pids)), ENDS_WITHIN)
        return f"killed Patroni {member.process.pid} and postmaster {pids[1]} of {member.name}"

    def start_member(self, member: Member) -> None:
        """Start a member's Patroni, which starts its PostgreSQL."""
        command = [program("patroni"), str(self._folder / f"{member.name}.json")]
        member.process = self._run(command, member.name)

    def start_etcd(self) -> None:
        """Start etcd, with its former data if it has run."""
        command = etcd_command(self._folder / "etcd", self._etcd_port, self._etcd_peer_port)
        self._etcd = self._run([program("etcd"), *command], "etcd")
        # Before that, Patroni ends with an error.
        if not until(self._has_etcd, STARTS_WITHIN):
            raise ScenarioFailed(f"etcd did not start: see {self._folder / 'etcd.log'}")

    def _has_etcd(self) -> bool:
        with suppress(URLError, OSError):
            return "not_decided" not in _asked(self._etcd_port, "/version")
        return False

    def kill_etcd(self) -> str:
        """Kill etcd; return what was killed."""
        assert self._etcd is not None
        self._etcd.kill()
        self._etcd.wait()
        return f"killed etcd {self._etcd.pid}"

    def haproxy(self) -> str:
        """Start HAProxy in front of the cluster; return the DSN that leads to the primary."""
        return _dsn(self.haproxy_port())

    def haproxy_port(self) -> int:
        """Start HAProxy in front of the cluster, and return its port."""
        port = free_port()
        path = self._folder / "haproxy.cfg"
        backends = [(it.name, it.clients.port, it.peers[1].port) for it in self.members]
        path.write_text(haproxy_file(port, backends))
        self._run([program("haproxy"), "-db", "-f", str(path)], "haproxy")
        return port

    def settle(self) -> None:
        """Wait until a primary has two standbys, one of them synchronous.

        Raises:
            ScenarioFailed: When that takes too long.
        """
        if not until(self._is_complete, STARTS_WITHIN, 0.2):
            states = [dict(member.status()) for member in self.members]
            raise ScenarioFailed(f"the cluster is not complete: {states}; logs in {self._folder}")

    def _is_complete(self) -> bool:
        found = [member.status() for member in self.members]
        standbys = [each for each in found if each.get("replication_state") == "streaming"]
        return len(standbys) == len(self.members) - 1 and any(
            each.get("sync_standby") for each in standbys
        )

    def _start(self, undo: ExitStack) -> None:
        with Server(self._folder / "seed") as seed:
            self._programs, self.account = seed.programs, seed.data.stat().st_uid
        os.chown(self._folder, self.account, -1)
        undo.callback(start_watcher(_WATCH, str(self._folder)).communicate)
        self.members += [Member(name, self._folder, self._etcd_port, undo) for name in NAMES]
        undo.callback(self._end)
        self.start_etcd()
        for member in self.members:
            self._describe(member)
            self.start_member(member)
            # The first one that starts makes the data that the others copy.
            self._wait_for_primary()
        self.settle()

    def _wait_for_primary(self) -> None:
        process = self.members[0].process
        assert process is not None
        until(lambda: self.members[0].is_primary or process.poll() is not None, STARTS_WITHIN, 0.1)
        if not self.members[0].is_primary:
            log = (self._folder / f"{NAMES[0]}.log").read_text("utf-8", "replace")
            raise ScenarioFailed(f"Patroni did not start PostgreSQL: {log[-500:]}")

    def _describe(self, member: Member) -> None:
        described = member_file(
            member.name,
            member.folder,
            self._programs,
            ports=(member.port, member.api_port),
            proxies=tuple(proxy.port for proxy in member.peers),
            dynamic=self._settings,
        )
        member.folder.mkdir()
        os.chown(member.folder, self.account, -1)
        (self._folder / f"{member.name}.json").write_text(json.dumps(described))

    def _run(self, command: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        options = as_account(self.account)
        options["env"] = {k: v for k, v in options["env"].items() if not k.startswith("PATRONI")}
        with (self._folder / f"{name}.log").open("ab") as log:
            process = start_gated(list(command), stdout=log, stderr=log, **options)
        self._processes.append(process)
        open_gate(process)
        return process

    def _end(self) -> None:
        """Kill all processes; the watcher would if this process died."""
        servers = list(chain.from_iterable(member.postgres_pids() for member in self.members))
        for process in self._processes:
            process.kill()
            process.wait()
        _kill_all(servers)
        until(lambda: not any(map(is_alive, servers)), ENDS_WITHIN)


def _kill_all(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _dsn(*ports: int, attributes: str = "") -> str:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    tail = f"?target_session_attrs={attributes}" if attributes else ""
    return f"postgresql://postgres@{hosts}/postgres{tail}"


def _asked(port: int, path: str, body: Mapping[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    within = ANSWERS_WITHIN if body is None else STARTS_WITHIN
    with urlopen(request, timeout=within) as answer:
        text: str = answer.read().decode()
        return text
