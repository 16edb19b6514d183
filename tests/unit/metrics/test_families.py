"""Metric families from what a node has counted."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from attrs import evolve
from prometheus_client.core import Metric

from txqueue.metrics.families import LARGEST, OTHER, installation_families, node_families
from txqueue.model.run_log import WAIT_BOUNDS, RunTally
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Lease
from txqueue.policy.findings.status import Rest
from txqueue.store.reads.metrics import Installation


def node(meters: Meters | None = None) -> Any:
    """The services of a node that has lost its lease."""
    return SimpleNamespace(
        meters=meters or Meters(),
        credits=SimpleNamespace(describe=lambda: {"delivered": 1}),
        open_credit=SimpleNamespace(received=2),
        inbox=SimpleNamespace(received=3),
        reconciliation=SimpleNamespace(given_back=4),
        completions=SimpleNamespace(unwritten=0),
        workers=SimpleNamespace(count=2, capacity=100, load=0.5, in_flight=0, regular=[]),
        lag=SimpleNamespace(lag=0.0, memory=0),
        lease=Lease(1.0),
        peers=[SimpleNamespace(pipe=object()), SimpleNamespace(pipe=None)],
    )


def queue(name: str, ready: int) -> dict[str, Any]:
    """A queue with some ready jobs, which no node serves."""
    states = {"waiting": 0, "ready": ready, "assigned": 0, "failed": 0}
    waiting_for = {"signal": ready}
    figures: dict[str, Any] = {
        "oldest_ready_seconds": None,
        "nodes": [],
        "waiting_for": waiting_for,
    }
    return {"queue": name, **states, **figures}


def installation(*queues: dict[str, Any], others: Rest | None = None) -> Installation:
    """An installation with these queues and nothing else."""
    return Installation(
        queues=list(queues),
        others=others or Rest(),
        paused=frozenset(),
        waits=[],
        nodes=Counter(),
        overdue=0,
        snapshot=0.0,
        enqueued=0,
        items_done=0,
        items_failed=0,
        items_remaining=0,
    )


def values(families: list[Metric], name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name, by the values of their labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_a_thousand_work_types_do_not_make_a_thousand_series() -> None:
    """Those with the most runs keep their names; all others count together, and none is lost."""
    tally = RunTally()
    for number in range(1000):
        tally.burst([f"type{number}"] * (1 + number), [], 0.001)
        tally.ended[f"type{number}", "done"] += 1 + number
    families = list(node_families(node(Meters(tally)), {}))
    started = values(families, "txqueue_jobs_started_total")
    assert len(started) == LARGEST + 1
    assert started["type999",] == 1000
    assert sum(started.values()) == sum(values(families, "txqueue_jobs_finished_total").values())
    assert sum(started.values()) == 1000 * 1001 / 2
    assert sum(values(families, "txqueue_job_run_seconds_count").values()) == 1000 * 1001 / 2


def test_a_thousand_queues_do_not_make_a_thousand_series() -> None:
    """The largest queues keep their names; all others count together."""
    listed = (queue(f"queue{number}", number) for number in range(1000))
    found = installation(*listed, others=Rest(99_000, {"ready": 99_000}))
    families = list(installation_families(found))
    ready = {
        name: jobs
        for (name, state), jobs in values(families, "txqueue_queue_jobs").items()
        if state == "ready"
    }
    assert len(ready) == LARGEST + 1
    assert ready["queue999"] == 999
    assert ready[OTHER] == sum(range(900)) + 99_000
    waiting = values(families, "txqueue_queue_waiting_jobs")
    assert len(waiting) == LARGEST
    assert waiting["queue999", "signal"] == 999


def test_that_one_of_the_small_queues_is_paused_shows() -> None:
    """Whichever of them it is."""
    queues = [queue(f"queue{number}", number) for number in range(LARGEST + 9)]
    for paused, said in (("queue3", {(OTHER,)}), ("queue50", {("queue50",)}), ("", set())):
        found = evolve(installation(*queues), paused=frozenset({paused}))
        shown = values(list(installation_families(found)), "txqueue_queue_paused")
        assert {label for label, value in shown.items() if value} == said


def test_waits_are_a_histogram_by_queue_and_work_type() -> None:
    """That adds up over both; of very many pairs the smaller ones count together."""
    meters = Meters()
    none = [0] * (len(WAIT_BOUNDS) - 1)
    for _ in range(2):
        meters.add_waits([("mail", "welcome", [3, 4, *none], 0.7), ("", "", [1, 0, *none], 0.0)])
    families = list(node_families(node(meters), {}))
    assert values(families, "txqueue_job_wait_seconds_count") == {
        ("mail", "welcome"): 14,
        (OTHER, OTHER): 2,
    }
    buckets = values(families, "txqueue_job_wait_seconds_bucket")
    assert buckets["mail", "welcome", "0.001"] == 6
    assert buckets["mail", "welcome", "0.0025"] == buckets["mail", "welcome", "+Inf"] == 14
    assert ("mail", "welcome", "3600.0") in buckets or ("mail", "welcome", "3600") in buckets
    meters.add_waits([(f"queue{number}", "a", [1, 0, *none], 0.0) for number in range(5000)])
    families = list(node_families(node(meters), {}))
    counts = values(families, "txqueue_job_wait_seconds_count")
    assert len(counts) == LARGEST + 1
    assert sum(counts.values()) == 5016


def test_an_expired_lease_has_no_time_left() -> None:
    """A lease that expired a second ago is reported as 0, and the database as down."""
    families = list(node_families(node(), {}))
    assert values(families, "txqueue_lease_remaining_seconds") == {(): 0.0}
    assert values(families, "txqueue_database_up") == {(): 0}


def test_what_each_way_has_brought_and_how_full_the_node_is() -> None:
    """As its services have counted it."""
    families = list(node_families(node(), {}))
    assert values(families, "txqueue_deliveries_total") == {
        ("claim",): 0,
        ("direct",): 1,
        ("notified",): 2,
        ("peer",): 3,
    }
    found = {
        name: values(families, f"txqueue_{name}")[()]
        for name in ("given_back_total", "capacity_weight", "held_weight", "peers_connected")
    }
    assert [*found.values()] == [4, 200, 100, 1]


def test_no_label_names_a_host_node_job_group_or_tenant() -> None:
    """Labels are queues, work types, states and the like only."""
    tally = RunTally()
    tally.burst(["a"], [], 0.001)
    families = [
        *node_families(node(Meters(tally)), {}),
        *installation_families(installation(queue("default", 1))),
    ]
    labels = {label for each in families for sample in each.samples for label in sample.labels}
    assert labels <= {
        *("queue", "work_type", "outcome", "road", "state", "le", "quantile", "reason"),
        "waiting_for",
    }
