"""Nodes where the packages of TLS are not installed."""

from pathlib import Path
from typing import Final

import pytest

from tests.cluster.app import Says
from tests.cluster.nodes import ROOT, Nodes
from tests.cluster.peers import free_port
from txqueue import WorkQueue

LIMIT: Final = 120.0
# Python runs it at the start of each process: master, template and workers.
BLOCK: Final = """
import sys
for name in ("OpenSSL", "cryptography", "service_identity"):
    sys.modules[name] = None
"""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """An environment in which no process can import the packages of TLS."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    return {"PYTHONPATH": f"{tmp_path}:{ROOT}"}


async def test_a_node_runs_jobs(nodes: Nodes, queue: WorkQueue, settings: dict[str, str]) -> None:
    """With peers on its own host, and the endpoint for its operators."""
    node = nodes.start("--workers", "1", "--listen", f"tcp:{free_port()}", **settings)
    assert await queue.wait(await queue.enqueue(Says("hello")), LIMIT) == "hello"
    node.stop()


async def test_a_node_with_certificates_is_refused(nodes: Nodes, settings: dict[str, str]) -> None:
    """Before it has registered, and with the remedy."""
    node = nodes.start(
        "--tls-dir", "absent", "--listen", f"tcp:{free_port()}:interface=0.0.0.0", **settings
    )
    assert node.ended(LIMIT) == 1
    assert "TLS needs the package cryptography" in node.log
    assert "pip install 'txqueue[tls]'" in node.log
    assert node.info == {}
