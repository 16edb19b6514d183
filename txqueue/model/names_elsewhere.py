"""Names that other queues have for what txqueue has, and what to write in their place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

from txqueue.model.humanize import meant

T = TypeVar("T")


def _by_name(groups: Mapping[T, str]) -> Mapping[str, T]:
    return {name: text for text, names in groups.items() for name in names.split()}


# For each group what to write in Python, and on the command line.
OF_CLASSES: Final = _by_name(
    {
        ("retry = Retry(attempts=5) in the class, attempts=5 at enqueue", "--attempts N"): (
            "retries max_retries max_attempts max_tries tries attempts autoretry_for retry_on"
            " retry_policy retry_strategy retry_delay retry_backoff default_retry_delay"
            " min_backoff max_backoff retry_jitter retry_kwargs"
        ),
        ("timeout, in seconds", "--timeout TIME"): (
            "time_limit soft_time_limit job_timeout execution_timeout task_timeout timeout_seconds"
        ),
        ("queue", "--queue QUEUE"): "queue_name routing_key",
        ("group and group_limit", "--group GROUP"): (
            "lock concurrency concurrency_limit concurrency_key max_concurrency"
        ),
        ("group_rate = Rate(60, per=60)", "--group GROUP"): (
            "rate_limit throttle rate_limiter limiter"
        ),
        ("unique = Key(...) and unique_mode", "--unique KEY"): (
            "queueing_lock unique_for unique_key unique_until dedupe_key deduplication_id"
        ),
        ("schedule = Cron(...), Every(...) or Cooldown(...)", "txqueue schedule add --cron EXPR"): (
            "cron crontab periodic run_every"
        ),
        ("work_type", "--type TYPE"): "task_name job_type",
    }
)
"""What to write in place of an attribute of a class, which nothing would read."""
_OF_CALLS: Final = _by_name(
    {
        ("not_before, an aware datetime", "--not-before WHEN, such as 2030-01-31T12:00:00Z"): (
            "delay countdown eta run_at run_after run_in schedule_at schedule_in scheduled_at"
        ),
        ("not_after, and expires=True", "--not-after WHEN --expires"): "expires_at max_age ttl",
        ("unique, a text", "--unique KEY"): "job_id task_id idempotency_key",
        ("after, the numbers of jobs", "--after ID"): "depends_on",
    }
)
_OF_COMMANDS: Final = _by_name(
    {
        "txqueue node --app MODULE": (
            "start worker workers run work serve runworker beat scheduler consumer app capacity"
            " nodaemon pidfile logfile"
        ),
        "txqueue migrate": "init setup install upgrade",
        "txqueue status, or txqueue web": "inspect monitor flower info top",
        "txqueue enqueue": "defer delay push add submit send apply_async",
        "txqueue jobs": "ls list",
        "txqueue jobs --state running, or txqueue nodes": "ps active",
        "txqueue job ID": "show get logs log result",
        "txqueue retry": "requeue rerun",
        "txqueue cancel": "revoke abort kill delete rm",
        "txqueue cancel --all --queue QUEUE": "purge empty clear flush",
    }
)
_OF_NODES: Final = _by_name(
    {
        "--app MODULE": "A module include",
        "--app MODULE alone: any node fires schedules": "B beat",
        "--workers N": "c concurrency processes num_workers",
        "--queues NAMES": "Q queue queue_name",
        "--name NAME": "hostname node_name",
        "--worker-jobs N": "max_tasks_per_child max_jobs",
        "--worker-memory MIB": "max_memory_per_child",
    }
)
_OF_STATES: Final = _by_name(
    {
        "waiting": "scheduled delayed deferred retrying blocked",
        "ready": "pending queued enqueued available todo",
        "assigned": "running started active executing processing doing",
        "done": "succeeded success successful completed complete finished",
        "failed": "error errored dead discarded",
        "cancelled": "canceled aborted revoked",
    }
)


def said_elsewhere(name: str) -> str:
    """Return what to write in place of a name that others have; empty for any other name."""
    text, _ = OF_CLASSES.get(name) or _OF_CALLS.get(name) or (_OF_COMMANDS.get(name), "")
    return f"write {text}" if text else ""


def command_elsewhere(name: str) -> str:
    """Return what to write in place of a command that others have; empty for any other name."""
    text = _OF_COMMANDS.get(name.replace("-", "_"))
    return f"write {text}" if text else ""


def option_elsewhere(option: str, known: Collection[str]) -> str:
    """Return what to write in place of an option of a command that others have.

    Args:
        option: The option, with its dashes.
        known: The options of the command; what it does not have is not advised.
    """
    name = option.lstrip("-").replace("-", "_")
    _, text = OF_CLASSES.get(name) or _OF_CALLS.get(name) or ("", _OF_COMMANDS.get(name, ""))
    for each in (_OF_NODES.get(name, ""), text):
        if each.split(" ")[0] in known or each.startswith(("txqueue", "twistd")):
            return f"write {each}"
    return ""


def state_elsewhere(name: str) -> str:
    """Return what to write in place of a state that others have; empty for any other name."""
    state = _OF_STATES.get(name.lower())
    return f"write {state}" if state else ""


def remedy_for(unknown: Iterable[str], known: Collection[str]) -> str:
    """Return what to write in place of names that are not known, the first of them above all."""
    first = min(unknown)
    meaning = f"{said}; or" if (said := said_elsewhere(first)) else meant(first, known)
    return f"{meaning} use {', '.join(known)}".lstrip()
