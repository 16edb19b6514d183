"""Makes metric families of Prometheus of a node's counts, and of the installation's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Any, Final, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from txqueue.model.run_log import Histogram, RunTally
from txqueue.node.services import Services
from txqueue.policy.findings.status import STATES
from txqueue.policy.worker_limits import REASONS
from txqueue.store.reads.metrics import Installation

LARGEST: Final = 100
"""How many queues, and how many work types, have series of their own: those with the most jobs."""

OTHER: Final = "other"
"""The label of all others together."""

K = TypeVar("K")


def node_families(node: Services, labels: Mapping[str, str]) -> Iterator[Metric]:
    """Return the metrics of one node.

    Args:
        node: The node's services.
        labels: Labels that each series gets: ``database`` if the process has several nodes.
    """
    make = _Maker(labels)
    yield from _job_families(node.meters.tally, make)
    yield _wait_family(node.meters.waits, make)
    yield from _flow_families(node, make)
    yield from _state_families(node, make)


def _job_families(tally: RunTally, make: _Maker) -> Iterator[Metric]:
    label_of = _labels(tally.started, OTHER)
    started: Counter[str] = Counter()
    for work_type, times in tally.started.items():
        started[label_of(work_type)] += times
    ended: Counter[tuple[str, str]] = Counter()
    for (work_type, outcome), times in tally.ended.items():
        ended[label_of(work_type), outcome] += times
    yield make.counter("jobs_started", "Runs of jobs that started.", started, "work_type")
    yield make.counter(
        "jobs_finished", "Runs of jobs that ended, by outcome.", ended, "work_type", "outcome"
    )
    yield make.histogram(
        "job_run_seconds",
        "How long handlers ran; those that finish at once count the mean of a burst.",
        _added(tally.runs, label_of),
        "work_type",
    )


def _wait_family(waited: Mapping[tuple[str, str], Histogram], make: _Maker) -> Metric:
    """Return the waits of the pairs of queue and work type with the most jobs; none has no name."""
    weights = {key: sum(histogram.counts) for key, histogram in waited.items() if key[0]}
    return make.histogram(
        "job_wait_seconds",
        "How long jobs waited from when they could run to their start; each minute of the"
        " installation is counted by one node, so sum over all.",
        _added(waited, _labels(weights, (OTHER, OTHER))),
        "queue",
        "work_type",
    )


def _added(histograms: Mapping[K, Histogram], label_of: Callable[[K], K]) -> dict[K, Histogram]:
    """Return the histogram of each label: those of its names together."""
    sums: dict[K, Histogram] = {}
    for name, histogram in histograms.items():
        total = sums.setdefault(label_of(name), Histogram(histogram.bounds))
        total.add(histogram.counts, histogram.total)
    return sums


def _flow_families(node: Services, make: _Maker) -> Iterator[Metric]:
    meters = node.meters
    deliveries = {
        "claim": meters.claimed,
        "direct": node.credits.describe()["delivered"],
        "notified": node.open_credit.received,
        "peer": node.inbox.received,
    }
    yield make.histogram("claim_seconds", "How long claims took.", meters.claims)
    text = "How long the statements took that write done jobs."
    yield make.histogram("completion_seconds", text, meters.completions)
    yield make.counter(
        "deliveries",
        "Jobs that reached the node: by claim, direct dispatch, open credit or a peer; direct"
        " deliveries count assignments.",
        deliveries,
        "road",
    )
    text = "Jobs that were assigned to the node but not held by it, and returned to the queue."
    yield make.counter("given_back", text, node.reconciliation.given_back)
    text = "Jobs of dead nodes that this node returned to the queue."
    rescues = {reason: meters.rescues.get(reason, 0) for reason in ("expired", "ended")}
    yield make.counter("rescues", text, rescues, "reason")
    text = "Jobs that ended here while they were assigned anew, or were already written as ended."
    yield make.counter("tokens_lost", text, meters.tokens_lost)
    text = "Worker processes that ended without being told to."
    yield make.counter("worker_deaths", text, meters.worker_deaths)
    text = "Worker processes that were replaced, by the limit that they had reached."
    replaced = {reason: meters.workers_replaced[reason] for reason in REASONS}
    yield make.counter("workers_replaced", text, replaced, "reason")


def _state_families(node: Services, make: _Maker) -> Iterator[Metric]:
    workers, lease = node.workers, max(0.0, node.lease.remaining)
    capacity = workers.count * workers.capacity
    held = round(workers.load * capacity)
    unwritten = node.completions.unwritten
    peers = sum(peer.pipe is not None for peer in node.peers)
    for name, documentation, value in (
        ("jobs_running", "Jobs that run now.", workers.in_flight),
        ("unwritten_endings", "Jobs that ended, but are not yet written.", unwritten),
        ("worker_processes", "Worker processes that are ready.", len(workers.regular)),
        ("capacity_weight", "The weight that all workers run at a time.", capacity),
        ("held_weight", "The weight of the jobs that the workers hold.", held),
        ("reactor_lag_seconds", "How late the master's timers are.", node.lag.lag),
        ("memory_bytes", "The memory of the master.", node.lag.memory),
        ("lease_remaining_seconds", "Time until the node's lease expires.", lease),
        ("database_up", "1 if the database answers the node.", int(node.lease.is_reached)),
        ("peers_connected", "Connected peers.", peers),
    ):
        yield make.gauge(name, documentation, value)


def process_families(errors: int, expires_at: float | None) -> Iterator[Metric]:
    """Return the metrics of a process with any number of nodes.

    Args:
        errors: How often the metrics of the installation could not be read.
        expires_at: When the certificate expires; None for no certificate.
    """
    make = _Maker({})
    text = "Reads of the metrics of the installation that failed."
    yield make.counter("scrape_errors", text, errors)
    yield make.gauge("build_info", "The version.", {version("txqueue"): 1}, "version")
    if expires_at is not None:
        text = "When the node's certificate expires, in seconds since 1970."
        yield make.gauge("certificate_expiry_timestamp_seconds", text, expires_at)


def installation_families(installation: Installation, age: float = 0.0) -> Iterator[Metric]:
    """Return the metrics of the whole installation, which every node reports alike.

    Args:
        installation: Its state.
        age: The age of that in seconds.
    """
    make = _Maker({})
    yield from _queue_families(installation, make)
    text = "The age of the metrics of the whole installation, which are kept for 15 s."
    yield make.gauge("installation_age_seconds", text, age)
    text = "Jobs numbered since the schema was made."
    yield make.counter("jobs_enqueued", text, installation.enqueued)
    yield make.gauge("nodes", "Nodes by state.", installation.nodes, "state")
    items = {
        "done": installation.items_done,
        "failed": installation.items_failed,
        "remaining": installation.items_remaining,
    }
    yield make.gauge("workset_items", "Items of all worksets.", items, "state")
    yield make.gauge("schedules_overdue", "Schedules late by a minute.", installation.overdue)
    text = "The age of the oldest snapshot that keeps dead rows."
    yield make.gauge("oldest_snapshot_seconds", text, installation.snapshot)


def _queue_families(installation: Installation, make: _Maker) -> Iterator[Metric]:
    rows = installation.queues
    label_of = _labels({row["queue"]: sum(row[state] for state in STATES) for row in rows}, OTHER)
    depths = _depths(installation, label_of)
    yield make.gauge("queue_jobs", "Jobs of a queue by state.", depths, "queue", "state")
    yield make.gauge(
        "queue_waiting_jobs",
        "Waiting jobs of a queue by what they wait for.",
        {
            (row["queue"], reason): number
            for row in rows
            if label_of(row["queue"]) != OTHER
            for reason, number in row["waiting_for"].items()
        },
        "queue",
        "waiting_for",
    )
    oldest = _maxima(rows, label_of, lambda row: row["oldest_ready_seconds"] or 0.0)
    text = "How long the oldest ready job is due."
    yield make.gauge("queue_oldest_ready_seconds", text, oldest, "queue")
    paused = _maxima(rows, label_of, lambda row: int(row["queue"] in installation.paused))
    yield make.gauge("queue_paused", "1 if the queue is paused.", paused, "queue")
    nodes = _maxima(rows, label_of, lambda row: len(row["nodes"]))
    yield make.gauge("queue_nodes", "Nodes that serve the queue.", nodes, "queue")
    yield make.gauge(
        "queue_wait_seconds",
        "Percentiles of the time until jobs of the last minute started.",
        {
            (row["queue"], quantile): row[column]
            for row in installation.waits
            for quantile, column in (("0.5", "p50"), ("0.95", "p95"))
            if row[column] is not None and label_of(row["queue"]) != OTHER
        },
        "queue",
        "quantile",
    )


def _depths(installation: Installation, label_of: Callable[[str], str]) -> Counter[tuple[str, str]]:
    jobs: Counter[tuple[str, str]] = Counter()
    for row in installation.queues:
        for state in STATES:
            jobs[label_of(row["queue"]), state] += row[state]
    for state, number in installation.others.jobs.items():
        jobs[OTHER, state] += number
    return jobs


def _maxima(
    rows: Iterable[Mapping[str, Any]],
    label_of: Callable[[str], str],
    value_of: Callable[[Mapping[str, Any]], float],
) -> dict[str, float]:
    """Return the largest value of the queues that have a label."""
    largest: dict[str, float] = {}
    for row in rows:
        label = label_of(row["queue"])
        largest[label] = max(largest.get(label, 0.0), value_of(row))
    return largest


def _labels(weights: Mapping[K, float], other: K) -> Callable[[K], K]:
    """Return a function that gives the label of a name: its own if it is one of the largest."""
    largest = {name for name, _ in Counter(weights).most_common(LARGEST)}
    return lambda name: name if name in largest else other


class _Maker:
    """Makes metric families whose series have labels in common.

    Values are given by their labels, or one without labels by itself.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._names, self._values = list(labels), tuple(labels.values())

    def counter(self, name: str, documentation: str, values: Any, *labels: str) -> Metric:
        return self._filled(CounterMetricFamily, name, documentation, values, labels)

    def gauge(self, name: str, documentation: str, values: Any, *labels: str) -> Metric:
        return self._filled(GaugeMetricFamily, name, documentation, values, labels)

    def histogram(self, name: str, documentation: str, values: Any, *labels: str) -> Metric:
        return self._filled(HistogramMetricFamily, name, documentation, values, labels)

    def _filled(
        self, kind: Any, name: str, documentation: str, values: Any, labels: Sequence[str]
    ) -> Metric:
        family = kind(f"txqueue_{name}", documentation, labels=[*labels, *self._names])
        for key, value in values.items() if isinstance(values, Mapping) else [((), values)]:
            own = [key] if isinstance(key, str) else key
            is_single = not isinstance(value, Histogram)
            measured = [value] if is_single else [_buckets(value), value.total]
            family.add_metric([*own, *self._values], *measured)
        filled: Metric = family
        return filled


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return each bound with the number of observations up to it."""
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
