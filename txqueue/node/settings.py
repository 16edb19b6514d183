"""The settings of a node, read from flags, the environment and the configuration file; the row it
registers.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib.metadata import version
from typing import Any, Final

from attrs import field, frozen
from twisted.logger import Logger

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import counted, joined
from txqueue.model.job_policy import MOST_WEIGHT, Rate
from txqueue.model.keys import published_keys
from txqueue.model.payload_schema import payload_schema
from txqueue.model.work_item import WorkItem, explicit_policy, known_work_types, type_version
from txqueue.policy.endings.reports import RESULT_LIMIT, STEPS_LIMIT
from txqueue.policy.placement.idling import LEAST_BEATS
from txqueue.policy.worker_limits import NO_LIMITS, REASONS, WorkerLimits
from txqueue.policy.worker_start import checked_start
from txqueue.store.driver.hosts import location, redacted
from txqueue.store.enqueueing.encryption import KEY, has_key
from txqueue.store.schema.files import checked_name
from txqueue.system.processes import host_identity, usable_cpus
from txqueue.system.settings import Settings
from txqueue.wire.endpoints import Endpoint, parsed_endpoint
from txqueue.wire.tls import Credentials, credentials_of

_log = Logger()

# Seconds without an answer after which a statement counts as lost, unless the lease is longer.
PATIENCE = 10.0


@frozen
class NodeSettings:
    """The settings of a node.

    Attributes:
        dsn: A libpq URI or keyword string.
        app: The modules that define the work items.
        workers: How many worker processes.
        queues: The queues that the node serves.
        capacity: The weight that each worker runs at a time.
        name: The node's name.
        lease: Seconds of silence after which a node is presumed dead.
        poll: The most seconds for which an idle node sends no statement; None for the usual pace.
        schema: The name of the schema.
        admin: The admin endpoint; None for no endpoint.
        listen: The endpoint for peers; None for no peers.
        kill_stuck: Seconds after which a worker that can start no jobs is killed; None for never.
        unreadable_for: Seconds after which a job fails that no node can read.
        worker_start: How workers are started, one of `WORKER_STARTS`.
        worker_limits: What a worker does before it is replaced.
        result_limit: The longest result of a handler, and next stage, in bytes of JSON text.
        steps_limit: The most that the results of the steps of a job have together, likewise.
        deploy_guard: Whether the node claims no jobs of types that fail on a new version of the
            application as on no older one.
        guard_failures: How many such failures hold a type, at least.
        guard_share: Which share of its runs these must be.
        host: Identifies the host; a node detects at once when the process of another node of its
            host ends.
    """

    dsn: str = field(repr=False)
    app: list[str]
    workers: int = 1
    queues: list[str] = field(factory=lambda: ["default"])
    capacity: int = 100
    name: str = field(factory=socket.gethostname)
    lease: float = 10.0
    poll: float | None = None
    schema: str = "txqueue"
    admin: Endpoint | None = None
    listen: Endpoint | None = None
    kill_stuck: float | None = None
    unreadable_for: float = 3600.0
    worker_start: str = "auto"
    worker_limits: WorkerLimits = NO_LIMITS
    result_limit: int = RESULT_LIMIT
    steps_limit: int = STEPS_LIMIT
    deploy_guard: bool = False
    guard_failures: int = 3
    guard_share: float = 0.1
    host: str = field(factory=host_identity)

    @property
    def patience(self) -> float:
        """Seconds without an answer after which a statement counts as lost."""
        return max(self.lease, PATIENCE)


def row_of(settings: NodeSettings) -> dict[str, Any]:
    """Return the columns of the row that a node registers."""
    listen = settings.listen
    return {
        "name": settings.name,
        "hostname": socket.gethostname(),
        "pid": os.getpid(),
        "address": None if listen is None else listen.address,
        "port": None if listen is None else listen.port,
        "lease": settings.lease,
        "capacity": settings.capacity * settings.workers,
        "queues": settings.queues,
        "version": version("txqueue"),
    }


def summary_of(settings: NodeSettings) -> str:
    """Return one line that says what a node runs, and where: without secrets."""
    types = [cls.work_type for cls in known_work_types()]
    place = redacted(location(settings.dsn), settings.dsn) or "libpq's default"
    return (
        f"txqueue {version('txqueue')}, node {settings.name}: database {place},"
        f" schema {settings.schema}, queues {', '.join(settings.queues)},"
        f" {counted(settings.workers, 'worker')}, {counted(len(types), 'work type')}:"
        f" {joined(types)}"
    )


def worker_settings(settings: NodeSettings) -> dict[str, Any]:
    """Return the settings that a worker process gets at its start."""
    return {
        "dsn": settings.dsn,
        "app": settings.app,
        "capacity": settings.capacity,
        "name": settings.name,
        "schema": settings.schema,
        "result_limit": settings.result_limit,
        "steps_limit": settings.steps_limit,
    }


def policy_row(cls: type[WorkItem]) -> dict[str, Any]:
    """Return the policy that a node publishes for a work type."""
    return {
        "work_type": cls.work_type,
        "queue": cls.queue,
        "priority": int(cls.priority),
        "weight": cls.weight,
        "version": type_version(cls),
        "policy": {
            "timeout": cls.timeout,
            "attempts": cls.retry.attempts,
            "runtime": cls.runtime.value,
            "group_limit": cls.group_limit,
            "expires": cls.expires,
            **{name: True for name in ("redacted", "encrypted") if getattr(cls, name)},
            **_rate(cls.group_rate),
            **_keys(cls),
        },
        "schema": payload_schema(cls),
    }


def _rate(rate: Rate | None) -> dict[str, Any]:
    return {"group_rate": {"rate": rate.a_second, "burst": rate.burst}} if rate else {}


def _keys(cls: type[WorkItem]) -> dict[str, Any]:
    """Return the keys that the database computes, unless it cannot read the payloads."""
    keys = {} if cls.encrypted else published_keys(cls, explicit_policy(cls))
    if "unique" in keys:
        keys["unique_mode"] = cls.unique_mode.value
    return {"keys": keys} if keys else {}


def served_types() -> list[type[WorkItem]]:
    """Return the work types that this node runs; encrypted ones only if this process has a key."""
    locked = locked_types()
    if locked:
        _log.warn(
            "this node does not run {types}: their payloads are encrypted, and {key} is not set",
            types=", ".join(locked),
            key=KEY,
        )
    return [cls for cls in known_work_types() if cls.work_type not in locked]


def locked_types() -> list[str]:
    """Return the encrypted work types of the application if this process has no key for them."""
    return [cls.work_type for cls in known_work_types() if cls.encrypted and not has_key()]


# Jobs, or MiB of memory.
MOST_OF_WORKER: Final = 1_000_000_000
# A day in seconds: statements are given up after a lease, too.
LONGEST_LEASE: Final = 86_400.0
# No JSON of PostgreSQL is longer.
LONGEST_RESULT: Final = 2**28 - 1
MOST_GUARDED: Final = 1_000_000


def node_settings(settings: Settings, dsn: str, index: int) -> NodeSettings:
    """Return the settings of the node of a database.

    Args:
        settings: All settings of the process.
        dsn: The database.
        index: The place of the database among those that have nodes in this process.

    Raises:
        ConfigurationError: When a setting is not valid.
    """
    base_name = settings.node_name()
    # A certificate names the host's node, whichever database the node serves.
    credentials = credentials_of(settings, base_name)
    name = base_name if index == 0 else f"{base_name}-{index + 1}"
    admin = parsed_endpoint(
        str(settings.get("admin", settings.own_socket())),
        credentials,
        option=settings.label("admin"),
    )
    listen = _peer_endpoint(settings, credentials)
    return NodeSettings(
        dsn=dsn,
        app=settings.names("app", []),
        workers=settings.whole("workers", usable_cpus()),
        queues=settings.names("queues", ["default"]),
        capacity=settings.whole("capacity", 100, MOST_WEIGHT),
        name=name,
        lease=_lease(settings),
        poll=_poll(settings),
        schema=checked_name(str(settings.get("schema", "txqueue"))),
        kill_stuck=_kill_stuck(settings),
        result_limit=settings.whole("result_limit", RESULT_LIMIT, LONGEST_RESULT),
        steps_limit=settings.whole("steps_limit", STEPS_LIMIT, LONGEST_RESULT),
        deploy_guard=settings.switch("deploy_guard"),
        guard_failures=settings.whole("guard_failures", 3, MOST_GUARDED),
        guard_share=settings.share("guard_share", 0.1),
        unreadable_for=settings.seconds("unreadable_for", 3600.0, least=0.0),
        worker_start=checked_start(
            str(settings.get("worker_start", "auto")),
            sys.platform,
            settings.label("worker_start"),
        ),
        worker_limits=_worker_limits(settings, sys.platform),
        host=str(settings.get("host", host_identity())),
        admin=admin.beside(index),
        listen=None if listen is None else listen.beside(index),
    )


def _peer_endpoint(settings: Settings, credentials: Credentials | None) -> Endpoint | None:
    text = settings.get("listen")
    if text is None:
        return None
    endpoint = parsed_endpoint(str(text), credentials, option=settings.label("listen"))
    if endpoint.path is not None:
        raise ConfigurationError(
            f"peers of other hosts cannot reach {endpoint}", "give --listen tcp:PORT"
        )
    return endpoint


def _lease(settings: Settings) -> float:
    return settings.seconds("lease", 10.0, least=1.0, most=LONGEST_LEASE)


def _poll(settings: Settings) -> float | None:
    if settings.get("poll") is None:
        return None
    poll = settings.seconds("poll", 0.0, least=1.0)
    lease = _lease(settings)
    if poll * LEAST_BEATS > lease:
        raise ConfigurationError(
            f"--poll {poll:g} is longer than a third of the lease of {lease:g} s, in which a node"
            " must send three heartbeats",
            f"give --lease {LEAST_BEATS * poll:g}, after which the jobs of a dead node run again,"
            " or a shorter --poll",
        )
    return poll


def _kill_stuck(settings: Settings) -> float | None:
    if settings.get("kill_stuck") is None:
        return None
    # Before that time the master pings the worker and takes back what waits in it.
    return settings.seconds("kill_stuck", 0.0, least=5.0)


def _worker_limits(settings: Settings, platform: str) -> WorkerLimits:
    limits = {
        name: settings.whole(f"worker_{name}", 1000, MOST_OF_WORKER)
        for name in REASONS
        if settings.get(f"worker_{name}") is not None
    }
    if "memory" in limits and platform != "linux":
        raise ConfigurationError(
            f"{settings.label('worker_memory')} takes Linux, which tells the memory of processes",
            "give --worker-jobs",
        )
    return WorkerLimits(**limits)


def ensure_free(node: NodeSettings, *, is_named: bool) -> None:
    """Check that a node can listen where it is to.

    Args:
        node: The node's settings.
        is_named: Whether its admin endpoint was chosen, and does not follow from its name.

    Raises:
        ConfigurationError: When another process listens there.
    """
    if node.admin is not None:
        # A second node of the same name, wherever it listens, would stop the first one.
        second_remedy = "a second node of this host needs a name of its own: --name NAME"
        remedy = "choose another --admin" if is_named else "choose another --state-dir"
        node.admin.ensure_free(
            remedy, f"{remedy}, and {second_remedy}" if is_named else second_remedy
        )
    if node.listen is not None:
        node.listen.ensure_free("choose another --listen")
