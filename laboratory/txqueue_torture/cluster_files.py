"""The configuration of the programs of a `txqueue_torture.cluster.Cluster`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

__all__ = ["DYNAMIC", "etcd_command", "haproxy_file", "member_file"]

DYNAMIC: Final[Mapping[str, Any]] = MappingProxyType(
    {
        # The shortest that Patroni accepts.
        "ttl": 20,
        "loop_wait": 1,
        "retry_timeout": 3,
        "primary_start_timeout": 0,
        "synchronous_mode": True,
        "postgresql": {
            "use_pg_rewind": True,
            "parameters": {
                "max_connections": 150,
                "shared_buffers": "32MB",
                "fsync": "off",
                "jit": "off",
                "wal_sender_timeout": "5s",
                "wal_receiver_timeout": "5s",
            },
        },
    }
)
"""Patroni's dynamic configuration, but for what a scenario changes."""

_HBA: Final = (
    "local all all trust",
    "host all all 127.0.0.1/32 trust",
    "local replication all trust",
    "host replication all 127.0.0.1/32 trust",
)


def member_file(
    name: str,
    folder: Path,
    programs: Path,
    *,
    ports: tuple[int, int],
    proxies: tuple[int, ...],
    dynamic: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the configuration of a member's Patroni; JSON is YAML, too.

    Args:
        name: The member's name.
        folder: The member's folder.
        programs: The folder of PostgreSQL's programs.
        ports: Where PostgreSQL and the REST API listen.
        proxies: The ports of the proxies to PostgreSQL, to the REST API, and to etcd.
        dynamic: The dynamic configuration, of which the first member's counts.
    """
    port, api_port = ports
    proxied, api_proxied, etcd = proxies
    postgres = {"username": "postgres"}
    return {
        "scope": "torture",
        "name": name,
        "restapi": {
            "listen": f"127.0.0.1:{api_port}",
            "connect_address": f"127.0.0.1:{api_proxied}",
        },
        # As a proxy, so that Patroni does not ask etcd for its own address and use that.
        "etcd3": {"host": f"127.0.0.1:{etcd}", "use_proxies": True},
        "bootstrap": {
            "dcs": dict(dynamic),
            "initdb": [{"auth": "trust"}, {"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
        },
        "postgresql": {
            "listen": f"127.0.0.1:{port}",
            "connect_address": f"127.0.0.1:{proxied}",
            "data_dir": str(folder / "data"),
            "bin_dir": str(programs),
            "pgpass": str(folder / "pgpass"),
            "use_unix_socket": True,
            "authentication": {"superuser": postgres, "replication": postgres, "rewind": postgres},
            "pg_hba": list(_HBA),
            "parameters": {"unix_socket_directories": str(folder)},
        },
    }


def etcd_command(folder: Path, port: int, peer_port: int) -> list[str]:
    """Return the arguments of etcd: one member, with its data in a folder."""
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        *("--name", "e1", "--data-dir", str(folder), "--logger", "zap"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"e1={peer}"),
    ]


def haproxy_file(port: int, backends: Iterable[tuple[str, int, int]]) -> str:
    """Return HAProxy's configuration: connections go to the member that says that it is primary.

    Args:
        port: Where HAProxy listens.
        backends: For each member its name, the port of PostgreSQL and that of Patroni's REST API.
    """
    servers = [
        f"    server {name} 127.0.0.1:{server} check port {api}\n" for name, server, api in backends
    ]
    return _HAPROXY.format(port=port) + "".join(servers)


_HAPROXY: Final = """\
defaults
    mode tcp
    timeout connect 4s
    timeout client 30m
    timeout server 30m
    timeout check 2s
listen primary
    bind 127.0.0.1:{port}
    option httpchk GET /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
"""
