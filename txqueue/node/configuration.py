"""Reads the settings of a node from flags, the environment and the configuration file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from txqueue.errors import ConfigurationError
from txqueue.model.job_policy import MOST_WEIGHT
from txqueue.node.settings import NodeSettings
from txqueue.policy.endings.batching import RESULT_LIMIT, STEPS_LIMIT
from txqueue.policy.placement.idling import LEAST_BEATS
from txqueue.policy.worker_start import checked_start
from txqueue.store.schema.files import checked_name
from txqueue.system.cpus import usable_cpus
from txqueue.system.procfs import host_identity
from txqueue.system.settings import Settings
from txqueue.wire.endpoints import Endpoint, parsed_endpoint
from txqueue.wire.tls import Credentials

__all__ = ["credentials_of", "ensure_free", "node_settings"]

# A day in seconds: statements are given up after a lease, too.
LONGEST_LEASE: Final = 86_400.0
# No JSON of PostgreSQL is longer.
LONGEST_RESULT: Final = 2**28 - 1


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
        unreadable_for=settings.seconds("unreadable_for", 3600.0, least=0.0),
        worker_start=checked_start(
            str(settings.get("worker_start", "auto")),
            sys.platform,
            settings.label("worker_start"),
        ),
        host=str(settings.get("host", host_identity())),
        admin=admin.beside(index),
        listen=None if listen is None else listen.beside(index),
    )


def credentials_of(settings: Settings, name: str) -> Credentials | None:
    """Return the certificate of a node, and its key; None without TLS.

    Raises:
        ConfigurationError: When its files cannot be used.
    """
    folder = settings.get("tls_dir")
    if folder is None:
        return None
    credentials = Credentials(Path(folder), name)
    credentials.check()
    return credentials


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
