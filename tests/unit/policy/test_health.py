"""Whether a node is live and ready, and the reason that is given."""

from typing import Any

import pytest

from txqueue.policy.health import Health, HealthFacts, decide_health, merge_health

WELL: dict[str, Any] = {
    "has_started": True,
    "is_draining": False,
    "has_database": True,
    "lease_left": 7.5,
    "workers": 2,
    "able": 1,
}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, "ready"),
        ({"lease_left": 0.0}, "the lease has expired"),
        ({"lease_left": -1.0, "has_database": False}, "the database does not answer"),
        ({"workers": 0, "able": 0}, "no worker process runs: each starts or has ended"),
        ({"workers": 0, "able": 0, "are_starting": True}, "starting: its workers are starting"),
        ({"able": 0}, "no worker process can start jobs"),
        ({"lease_left": 0.0, "workers": 0, "able": 0}, "the lease has expired"),
        ({"has_started": False, "has_database": False}, "starting"),
        ({"has_started": False, "connect_error": "no such role"}, "starting: the node has not reg"),
        ({"has_database": False, "connect_error": "no such role"}, "no such role"),
        ({"has_database": False, "refusal": "denied"}, "the database refuses statements: denied"),
        ({"has_started": False, "refusal": "denied"}, "the database refuses statements: denied"),
        ({"refusal": "denied"}, "the database refuses statements: denied"),
        ({"is_draining": True, "has_database": False}, "draining"),
    ],
)
def test_the_weightiest_reason_is_given(changed: dict[str, Any], reason: str) -> None:
    """A node that answers is live, whatever it lacks."""
    health = decide_health(HealthFacts(**{**WELL, **changed}))
    assert health.live
    assert health.ready == (not changed)
    assert health.reason.startswith(reason)
    assert len(health.reason.splitlines()) == 1


def test_a_process_is_ready_if_all_its_nodes_are() -> None:
    """The first node that is not ready is named; a single node needs no name."""
    well, ill = Health(True, True, "ready"), Health(True, False, "the lease has expired")
    assert merge_health([("a", ill)]) == ill
    assert merge_health([("a", well), ("b", well)]) == well
    merged = merge_health([("a", well), ("b", ill)])
    assert (merged.ready, merged.reason) == (False, "b: the lease has expired")
