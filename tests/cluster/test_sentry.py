"""What a node's workers send to Sentry, with the SDK as an application sets it up."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually

pytest.importorskip("sentry_sdk")

CARD = "4111111111111111"


async def test_a_failed_job_is_an_issue_of_its_kind(
    nodes: Nodes, db: Database, tmp_path: Path
) -> None:
    """With the fingerprint of the database, from a forked worker, and without the payload."""
    kept = tmp_path / "kept"
    app = "tests.cluster.app_of_sentry"
    node = await nodes.start("--workers", "2", app=app, SENTRY_KEPT=str(kept)).up(2)
    assert len(node.templates) == 1
    job_id = db.enqueue("shop.Charge", json.dumps({"card": CARD}))
    await eventually(lambda: db.states() == {"failed": 1}, PATIENCE)
    nodes.stop()
    sent: list[Any] = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [kind for kind, _, _ in sent].count("transaction") == 2
    [event] = [document for kind, document, _ in sent if kind == "event"]
    fingerprint = db.value("select fingerprint from txqueue.job where job_id = %s", job_id)
    assert event["fingerprint"] == ["txqueue", fingerprint]
    messages = [crumb["message"] for crumb in event["breadcrumbs"]["values"]]
    assert "charges, attempt 2" in messages
    assert CARD not in kept.read_text()
