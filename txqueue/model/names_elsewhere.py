"""Names that other queues have for what txqueue has, and what to write in their place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from txqueue.model.humanize import meant


def _by_name(groups: Mapping[str, str]) -> Mapping[str, str]:
    return {name: text for text, names in groups.items() for name in names.split()}


OF_CLASSES: Final = _by_name(
    {
        "retry = Retry(attempts=5) in the class, attempts=5 at enqueue": (
            "retries max_retries max_attempts max_tries tries attempts autoretry_for retry_on"
            " retry_policy retry_strategy retry_delay retry_backoff default_retry_delay"
            " min_backoff max_backoff retry_jitter retry_kwargs"
        ),
        "timeout, in seconds": (
            "time_limit soft_time_limit job_timeout execution_timeout task_timeout timeout_seconds"
        ),
        "queue": "queue_name routing_key",
        "group and group_limit": (
            "lock rate_limit concurrency concurrency_limit concurrency_key max_concurrency"
        ),
        "unique = Key(...) and unique_mode": (
            "queueing_lock unique_for unique_key unique_until dedupe_key deduplication_id"
        ),
        "schedule = Cron(...), Every(...) or Cooldown(...)": "cron crontab periodic run_every",
        "work_type": "task_name job_type",
    }
)
"""What to write in place of an attribute of a class, which nothing would read."""
_OF_CALLS: Final = _by_name(
    {
        "not_before, an aware datetime": (
            "delay countdown eta run_at run_after run_in schedule_at schedule_in scheduled_at"
        ),
        "not_after, and expires=True": "expires_at max_age ttl",
        "unique, a text": "job_id task_id idempotency_key",
        "after, the numbers of jobs": "depends_on",
        "twistd txqueue --app MODULE, which runs a node": (
            "start worker workers run work serve runworker beat scheduler consumer app capacity"
            " nodaemon pidfile logfile"
        ),
        "txqueue migrate": "init setup install upgrade",
        "txqueue status, or txqueue web": "inspect monitor flower info top",
        "txqueue cancel": "purge revoke abort",
    }
)


def said_elsewhere(name: str) -> str:
    """Return what to write in place of a name that others have; empty for any other name."""
    text = OF_CLASSES.get(name) or _OF_CALLS.get(name)
    return f"write {text}" if text else ""


def remedy_for(unknown: Iterable[str], known: Collection[str]) -> str:
    """Return what to write in place of names that are not known, the first of them above all."""
    first = min(unknown)
    meaning = f"{said}; or" if (said := said_elsewhere(first)) else meant(first, known)
    return f"{meaning} use {', '.join(known)}".lstrip()
