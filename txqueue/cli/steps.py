"""``txqueue steps`` and ``txqueue signal``: what a job has done, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from txqueue.cli.archived_jobs import or_archived
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import listing, say, show
from txqueue.cli.source import act_by_node, read_database
from txqueue.model.humanize import moment

__all__ = ["signal", "steps"]


@click.command(cls=Command, short_help="Show the steps of a job.")
@click.argument("job_id", metavar="ID", type=NUMBER)
@click.pass_obj
def steps(options: GlobalOptions, job_id: int) -> None:
    """Show the steps that the job ID has done, with their results, and what it waits for."""
    from txqueue.store.reads.steps import about_archived_steps, about_steps

    document = or_archived(
        options,
        job_id,
        lambda: read_database(options, lambda schema: about_steps(schema, job_id)),
        lambda row: read_database(options, lambda schema: about_archived_steps(schema, row)),
    )
    columns = ["step", "kind", "began", "ended", "result"]
    show(
        options,
        document,
        lambda: listing(f"Job {job_id}", columns, _rows(document), "The job has no steps."),
    )


def _rows(document: Mapping[str, Any]) -> Iterator[list[object]]:
    now = datetime.now(UTC)
    for step in document["steps"]:
        yield [
            step["name"],
            step["kind"],
            _moment(step["began_at"], now),
            _moment(step.get("ended_at"), now),
            _result(step, now),
        ]


def _moment(value: Any, now: datetime) -> str:
    if value is None:
        return "-"
    return moment(datetime.fromisoformat(value) if isinstance(value, str) else value, now)


def _result(step: Mapping[str, Any], now: datetime) -> str:
    if step.get("error"):
        return str(step["error"])
    if step.get("ended_at"):
        return json.dumps(step.get("result"), ensure_ascii=False)
    what = {"signal": f"waits for the signal {step.get('signal')}"}
    what["call"] = f"waits for job {step.get('child')}"
    until = f" until {_moment(step['until'], now)}" if step.get("until") else ""
    return what.get(step["kind"], "waits") + until


@click.command(cls=Command, short_help="Send a signal to a job that waits for it.")
@click.argument("job_id", metavar="ID", type=NUMBER)
@click.argument("name")
@click.argument("value", required=False)
@click.option("--key", help="Send nothing if a signal with this name and key was sent before.")
@click.pass_obj
def signal(
    options: GlobalOptions, job_id: int, name: str, value: str | None, key: str | None
) -> None:
    """Send the signal NAME to the job ID, with a VALUE in JSON.

    A job that does not wait for it yet takes it when it does.
    """
    sent = act_by_node(options, lambda admin: admin.signal(job_id, name, _json(value), key=key))
    text = "has the signal" if sent else "has had this signal before"
    say(options, {"job_id": job_id, "is_new": sent}, f"Job {job_id} {text} {name}.")


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        raise click.UsageError(
            f"the value is not JSON: {text[:50]}; text has quotes of its own, as in '\"yes\"'"
        ) from None
