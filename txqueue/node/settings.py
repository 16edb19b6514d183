"""The settings of a node, and the row that it registers."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version
from typing import Any

from attrs import field, frozen
from twisted.logger import Logger

from txqueue.model.humanize import counted, joined
from txqueue.model.keys import published_keys
from txqueue.model.type_version import type_version
from txqueue.model.work_item import WorkItem, explicit_policy, known_work_types
from txqueue.policy.endings.batching import RESULT_LIMIT, STEPS_LIMIT
from txqueue.store.driver.conninfo import location
from txqueue.store.driver.redaction import redacted
from txqueue.store.enqueueing.encryption import KEY, has_key
from txqueue.system.procfs import host_identity
from txqueue.wire.endpoints import Endpoint

__all__ = [
    "NodeSettings",
    "locked_types",
    "policy_row",
    "row_of",
    "served_types",
    "summary_of",
    "worker_settings",
]

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
        result_limit: The longest result of a handler, and next stage, in bytes of JSON text.
        steps_limit: The most that the results of the steps of a job have together, likewise.
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
    result_limit: int = RESULT_LIMIT
    steps_limit: int = STEPS_LIMIT
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
            **_keys(cls),
        },
    }


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
