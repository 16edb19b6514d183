"""What is wrong with nodes, queues and jobs, from the database's counts, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from txqueue.model.humanize import (
    age,
    amount,
    argument,
    counted,
    counted_as,
    joined,
    limit_command,
    meant,
    queues_option,
    resume_command,
)
from txqueue.policy.facts.obstacles import (
    MOST_SERVED,
    SERVING,
    UNENDED,
    LiveJobs,
    Rest,
    Row,
    Warned,
    because_silent,
    listed,
    remedy_if_silent,
    remedy_of_refusal,
    remedy_of_right,
    served_queues,
    threads_left,
    to_undrain,
)

# For so long the first import of an application may last before a node is said to have no worker.
STARTING = timedelta(seconds=30)


@listed
def dead(nodes: Iterable[Row], now: datetime) -> Iterator[Warned]:
    """Yield a warning for each node that has died."""
    for node in nodes:
        if node["state"] == "dead":
            silent = age((now - node["heartbeat_at"]).total_seconds())
            what = f"node {node['name']} is dead: no heartbeat for {silent}"
            if lacking := node.get("lacking_right"):
                what = f"{what}, as {lacking}"
            remedy = remedy_if_silent(node, "start it again")
            yield "dead_node", node["name"], what, remedy


@listed
def refused(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node of which the database refuses statements."""
    for node in nodes:
        if node["state"] not in SERVING:
            continue
        refusal = (node.get("report") or {}).get("refused") or {}
        # A node that lacks it for its heartbeats cannot report that.
        if said := node.get("lacking_right") or refusal.get("said"):
            what = f"the database refuses statements of node {node['name']}: {said}"
            is_lacking = bool(node.get("lacking_right"))
            yield (
                "refused",
                node["name"],
                what,
                remedy_of_right(node) if is_lacking else remedy_of_refusal(refusal),
            )


@listed
def without_workers(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node that accepts jobs, and has no worker process for them."""
    for node in nodes:
        is_idle = node["state"] == "alive" and (node.get("report") or {}).get("workers") == 0
        if is_idle and node["heartbeat_at"] - node["started_at"] >= STARTING:
            what = f"no worker process of node {node['name']} runs, so that it starts no job"
            remedy = f"see its log on {node['hostname']}: the import of the application may fail"
            yield "no_workers", node["name"], what, remedy


@listed
def unable_workers(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node of whose workers some can start no job."""
    for node in nodes:
        number = (node.get("report") or {}).get("unable", 0)
        if number and node["state"] in SERVING:
            what = (
                f"{counted(number, 'worker')} of node {node['name']} can start no job:"
                f" {'it does' if number == 1 else 'they do'} not answer, or handlers of ended runs"
                f" fill {'its' if number == 1 else 'their'} threads"
            )
            remedy = (
                "see its log for the reason: those that do not answer and run no job are replaced"
                " after 30 s, all others only with --kill-stuck"
            )
            yield "unable_workers", node["name"], what, remedy


@listed
def crowded_workers(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node with workers half of which threads of ended jobs keep."""
    for node in nodes:
        report = node.get("report") or {}
        if node["state"] in SERVING and (report.get("left") or {}).get("crowded"):
            workers = counted(report["left"]["crowded"], "worker")
            what = (
                f"{workers} of node {node['name']} can start few jobs: {threads_left(report)} of"
                f" its weight of {node['capacity']:,}"
            )
            remedy = (
                "have their handlers return when job.is_cancelled; --kill-stuck replaces such"
                " workers"
            )
            yield "crowded_workers", node["name"], what, remedy


@listed
def not_held(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node that lacks jobs that are assigned to it."""
    for node in nodes:
        jobs = (node.get("report") or {}).get("missing", 0)
        if jobs and node["state"] in SERVING:
            what = (
                f"node {node['name']} does not hold"
                f" {counted_as(jobs, 'job', 'that is assigned to it', 'that are assigned to it')}"
            )
            remedy = "nothing: it returns them within two heartbeats; if not, restart it"
            yield "not_held", node["name"], what, remedy


def by_application(nodes: Iterable[Row]) -> dict[str, list[str]]:
    """Return the names of the live nodes with workers that run each version of the application."""
    running: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] in SERVING:
            for version in (node.get("report") or {}).get("applications") or ():
                running.setdefault(version, []).append(node["name"])
    return running


def named_versions(running: Mapping[str, Sequence[str]]) -> str:
    """Return versions with the nodes that run them, as one text."""
    return "; ".join(
        f"{version} ({', '.join(names)})" for version, names in sorted(running.items())
    )


def application_warnings(nodes: Sequence[Row]) -> list[dict[str, str]]:
    """Return warnings about nodes that run different versions of the application, or old files."""
    return [*_mixed_applications(nodes), *_outdated(nodes)]


@listed
def _mixed_applications(nodes: Sequence[Row]) -> Iterator[Warned]:
    alive, named = served_queues(nodes), {node["name"]: node for node in nodes}
    for queue, names in sorted(served_queues(nodes, SERVING).items()):
        running = by_application(named[name] for name in names)
        if queue in alive and len(running) > 1:
            what = f"the workers of the queue {queue} run different versions of the application"
            remedy = "finish the deploy: restart the nodes that run the older one"
            yield "mixed_applications", queue, f"{what}: {named_versions(running)}", remedy


@listed
def _outdated(nodes: Iterable[Row]) -> Iterator[Warned]:
    for node in nodes:
        if node["state"] in SERVING and (node.get("report") or {}).get("is_outdated"):
            what = f"the files of the application have changed since node {node['name']} read them"
            yield "outdated_node", node["name"], what, f"restart it on {node['hostname']}"


OLD_SNAPSHOT = 300.0
# The kinds of warnings that say no more than that no node runs.
_FOLLOWING = ("dead_node", "unserved_queue", "unknown_type", "overdue_schedules")


def warnings(
    live: LiveJobs, nodes: Sequence[Row], snapshots: Iterable[Row], now: datetime
) -> list[dict[str, str]]:
    """Return what is wrong with nodes, queues and jobs, and how to fix it.

    Args:
        live: The numbers of unended or failed jobs.
        nodes: The nodes.
        snapshots: The snapshots that keep vacuum from removing rows.
        now: The time by the database's clock.

    Returns:
        Dictionaries with ``kind, subject, what, remedy``; the gravest first.
    """
    return [
        *dead(nodes, now),
        *refused(nodes),
        *without_workers(nodes),
        *unable_workers(nodes),
        *crowded_workers(nodes),
        *not_held(nodes),
        *_unserved(live, nodes, now),
        *_unknown(live, nodes, now),
        *application_warnings(nodes),
        *_failed(live),
        *_held_back(snapshots, now),
    ]


def explained(
    found: Iterable[dict[str, str]],
    live: LiveJobs,
    nodes: Sequence[Row],
    schedules: int,
    now: datetime,
) -> list[dict[str, str]]:
    """Return warnings; if no node runs, that comes first, and what follows from it is left out.

    Args:
        found: All other warnings.
        live: The numbers of unended or failed jobs.
        nodes: The nodes.
        schedules: How many schedules are active.
        now: The time by the database's clock.
    """
    if any(node["state"] in SERVING for node in nodes):
        return list(found)
    last = _last_silent(nodes)
    jobs = sum(_sums(live.queues, "state", UNENDED).values()) + _left(live.other_queues, *UNENDED)
    if not (jobs or schedules or last):
        return list(found)
    what, remedy = standstill(jobs, schedules, last, _silent(last, now))
    first = {"kind": "no_node", "subject": "", "what": what, "remedy": remedy}
    return [first, *(warning for warning in found if warning["kind"] not in _FOLLOWING)]


def standstill(jobs: int, schedules: int, last: Row | None, silent: float) -> tuple[str, str]:
    """Return what is wrong, and the remedy, if no node runs.

    Args:
        jobs: How many jobs have not ended.
        schedules: How many schedules are active.
        last: The node that was the last to fall silent; None if all were stopped.
        silent: Seconds since its heartbeat.
    """
    numbers = ((jobs, "job"), (schedules, "schedule"))
    needing = " and ".join(counted(number, noun) for number, noun in numbers if number)
    wait = f"; {needing} {'waits' if jobs + schedules == 1 else 'wait'} for one"
    what = f"no node runs{because_silent(last, silent)}{wait if needing else ''}"
    return what, remedy_if_silent(last, "start one: twistd -n txqueue --app MODULE")


@listed
def paused(controls: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each pause by an operator."""
    for control in controls:
        if control["is_paused"]:
            what = f"the {control['kind']} {control['key']} is paused"
            yield (
                "paused",
                control["key"],
                what,
                f"to resume it: {resume_command(control['kind'], control['key'])}",
            )


@listed
def full(controls: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each queue that refuses new jobs."""
    for control in controls:
        if control["is_full"]:
            limit = control["backlog"]
            what = (
                f"the queue {control['key']} is full: its waiting and ready jobs have reached its"
                f" backlog limit of {amount(limit)}; new ones are refused until there are fewer"
                f" than {amount(limit - limit // 10)}"
            )
            remedy = (
                "check that its jobs run, or raise the limit:"
                f" {limit_command('queue', control['key'], '--backlog N')}"
            )
            yield "full", control["key"], what, remedy


@listed
def recurring(schedules: Row) -> Iterator[Warned]:
    """Yield warnings for schedules that no node ticks, and those whose last job was refused."""
    such_as = schedules["such_as"]
    name = argument(such_as or "") if schedules["overdue"] == 1 else "NAME"
    overdue = (
        "check that a node runs that has the classes of those declared in code; remove those"
        f" whose class is gone: txqueue schedule remove {name}"
    )
    for kind, what, remedy in (
        ("overdue", "overdue by more than a minute", overdue),
        ("refused", "without their last job", "see why: txqueue schedules"),
    ):
        if number := schedules[kind]:
            are = "is" if number == 1 else "are"
            text = f"{amount(number)} of the schedules {are} {what}, such as {such_as}"
            yield f"{kind}_schedules", such_as, text, remedy


@listed
def idle(worksets: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each workset that has items and was never started."""
    for workset in worksets:
        if workset["remaining"] and not workset["is_started"]:
            items = counted(workset["remaining"], "item")
            what = f"the workset {workset['name']} has {items}, and was never started"
            yield (
                "idle_workset",
                workset["name"],
                what,
                "start it, from Python: queue.start_workset()",
            )


def unserved_queue(queue: str, nodes: Iterable[Row], now: datetime) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no node serves a queue, or all of them drain."""
    serving = served_queues(known := list(nodes), SERVING)
    if queue in served_queues(known):
        return None
    if queue in serving:
        names = serving[queue]
        what = f"every node that serves the queue {queue} is draining: {joined(names)}"
        return what, to_undrain(names)
    what = f"no live node serves the queue {queue}"
    remedy = f"start a node with {queues_option(queue)}"
    return _by_silent(what, remedy, (node for node in known if queue in node["queues"]), now)


def _by_silent(what: str, remedy: str, did: Iterable[Row], now: datetime) -> tuple[str, str]:
    """Add to what is wrong, and to the remedy, which silent node was the last that did it."""
    last = _last_silent(did)
    return f"{what}{because_silent(last, _silent(last, now))}", remedy_if_silent(last, remedy)


def _last_silent(nodes: Iterable[Row]) -> Row | None:
    dead = (node for node in nodes if node["state"] == "dead")
    return max(dead, key=lambda node: node["heartbeat_at"], default=None)


def _silent(node: Row | None, now: datetime) -> float:
    """Return for how many seconds a node has been silent; 0 for none."""
    return (now - node["heartbeat_at"]).total_seconds() if node else 0.0


def unknown_type(
    work_type: str, nodes: Iterable[Row], *, is_published: bool
) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no live node has a work type.

    Args:
        work_type: The work type.
        nodes: The nodes.
        is_published: Whether any node has ever registered it.
    """
    if any(work_type in node["work_types"] for node in nodes if node["state"] in SERVING):
        return None
    what = f"no live node has the work type {work_type}"
    if not is_published:
        what = f"no node has ever registered the work type {work_type}"
    return what, "start a node whose --app defines it"


def unfamiliar(kind: str, key: str, known: Iterable[str]) -> str:
    """Return the warning about a queue, group or tenant without jobs and limits.

    Args:
        kind: Which of the three it is.
        key: Its name.
        known: The names of others, of which the nearest may be meant.
    """
    question = meant(key, set(known))
    hint = question and f"; {question}"
    if kind == "queue":
        return f"no live node serves {key} and it has no jobs{hint}"
    return f"the {kind} {key} has no jobs{hint}"


def _which_have(rest: Rest, noun: str) -> str:
    return f"{counted(rest.names, noun)}, which {'has' if rest.names == 1 else 'have'}"


def _defined(node: Row) -> Iterator[str]:
    """Yield the work types that a node's application defines; some need a key that it lacks."""
    yield from node["work_types"]
    yield from (node.get("report") or {}).get("keyless") or ()


def _left(rest: Rest, *states: str) -> int:
    return sum(rest.jobs.get(state, 0) for state in states)


def _sums(live: Iterable[Row], column: str, states: Sequence[str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in live:
        if row["state"] in states:
            sums[row[column]] = sums.get(row[column], 0) + row["jobs"]
    return dict(sorted(sums.items()))


@listed
def _unserved(live: LiveJobs, nodes: Sequence[Row], now: datetime) -> Iterator[Warned]:
    # What waits for nodes that drain is counted as blocked.
    served, waiting = (
        served_queues(nodes, SERVING),
        _sums(live.queues, "queue", ("waiting", "ready")),
    )
    for queue, jobs in waiting.items():
        if queue not in served:
            what = f"no live node serves the queue {queue}, which has {counted(jobs, 'job')}"
            remedy = f"start a node with {queues_option(queue)}"
            did = (node for node in nodes if queue in node["queues"])
            yield "unserved_queue", queue, *_by_silent(what, remedy, did, now)
    # Of more served queues some are among those that are left out.
    if len(served) <= MOST_SERVED and (jobs := _left(live.other_queues, "waiting", "ready")):
        what = f"no live node serves {_which_have(live.other_queues, 'more queue')}"
        yield "unserved_queue", "", f"{what} {counted(jobs, 'job')}", "see: txqueue jobs"


@listed
def _unknown(live: LiveJobs, nodes: Sequence[Row], now: datetime) -> Iterator[Warned]:
    known = {name for node in nodes if node["state"] in SERVING for name in _defined(node)}
    for work_type, jobs in _sums(live.work_types, "work_type", ("waiting", "ready")).items():
        if work_type not in known:
            what = f"no live node has the work type {work_type}, which has {counted(jobs, 'job')}"
            did = (node for node in nodes if work_type in _defined(node))
            remedy = "start a node whose --app defines it"
            yield "unknown_type", work_type, *_by_silent(what, remedy, did, now)
    if len(known) <= MOST_SERVED and (jobs := _left(live.other_types, "waiting", "ready")):
        what = f"no live node has {_which_have(live.other_types, 'more work type')}"
        yield "unknown_type", "", f"{what} {counted(jobs, 'job')}", "see: txqueue jobs"


@listed
def _failed(live: LiveJobs) -> Iterator[Warned]:
    for work_type, jobs in _sums(live.work_types, "work_type", ("failed",)).items():
        what = f"{counted(jobs, 'job')} of {work_type} failed for good"
        remedy = f"txqueue jobs --state failed --type {work_type}"
        yield "failed_jobs", work_type, what, f"see why with: {remedy}"
    if jobs := _left(live.other_types, "failed"):
        what = f"{counted(jobs, 'job')} of other work types failed for good"
        yield "failed_jobs", "", what, "see why with: txqueue jobs --state failed"


@listed
def _held_back(snapshots: Iterable[Row], now: datetime) -> Iterator[Warned]:
    for row in snapshots:
        open_for = (now - row["since"]).total_seconds() if row["since"] else None
        if open_for is not None and open_for < OLD_SNAPSHOT:
            continue
        since = f" for {age(open_for)}" if open_for is not None else ""
        subject = f"{row['kind']} {row['name']}" + (f" (pid {row['pid']})" if row["pid"] else "")
        what = f"the {subject} has kept vacuum from removing dead rows{since}"
        yield "old_snapshot", row["name"], what, "end it if it is not needed"
