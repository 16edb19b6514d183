"""``txqueue steps``, ``signal`` and ``batch``: what a job has done, what it waits for, a batch's
progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from txqueue.cli import output
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import GlobalOptions, command, limited
from txqueue.cli.source import operate, or_archived, read_database
from txqueue.errors import InvalidWork, TxqueueError
from txqueue.model.humanize import amount, counted, cut, moment
from txqueue.model.results import check_signal_name, signal_json


@command()
@click.argument("job_id", metavar="ID", type=NUMBER)
def batch(options: GlobalOptions, job_id: int) -> None:
    """Show the progress of the batch whose callback is the job ID.

    Examples:
        batch 17
        batch 17 --json
    """
    from txqueue.store.reads.job_details import about_batch, archived_batch

    document = or_archived(options, job_id, about_batch, archived_batch)
    output.show(options, document, lambda: _batch_lines(document))


def _batch_lines(document: Mapping[str, Any]) -> output.Lines:
    ended = document["jobs"] - document["left"]
    state = output.job_state(document["state"])
    yield output.facts(
        [
            ("batch", str(document["batch"])),
            ("ended", output.bar(ended, document["jobs"])),
            ("", f"{amount(ended)} of {amount(document['jobs'])}"),
            *((name, amount(document[name])) for name in ("done", "failed", "cancelled")),
            ("calls back", document["work_type"]),
            ("which is", state),
        ]
    )


ENDED = ("done", "cancelled")
HIDDEN = ("redacted", "encrypted")
# The most characters of a result; --json has all.
LONGEST = 200


@command()
@click.argument("job_id", metavar="ID", type=NUMBER)
@limited(default=100, text="List at most this many: where it waits, and the latest.")
def steps(options: GlobalOptions, job_id: int, limit: int) -> None:
    """Show the steps of a job.

    That is what it has done, with the results, and what it waits for. Signals that no step has
    taken yet are listed, too. Long results are cut off; --json has all.

    Examples:
        steps 17
        steps 17 --json
    """
    from txqueue.store.reads.steps import about_archived_steps, about_steps

    def tell(row: dict[str, Any]) -> dict[str, Any]:
        return read_database(options, about_archived_steps, row)

    document = or_archived(options, job_id, about_steps, tell)
    output.show(options, document, lambda: _lines(job_id, document, limit))


def _lines(job_id: int, document: Mapping[str, Any], limit: int) -> output.Lines:
    now = datetime.now(UTC)
    columns: output.Columns = {
        "kind": lambda row: row["kind"] + (f" of {row['child_type']}" if row["child_type"] else ""),
        "step": "name",
        "began": lambda row: _moment(row["began_at"], now),
        "ended": lambda row: _moment(row.get("ended_at"), now),
        "result": lambda row: _result(row, now, is_over=document["state"] in ENDED),
    }
    found = document["steps"]
    # Those that have not ended, and the latest others, in their order.
    by_need = sorted(range(len(found)), key=lambda at: (bool(found[at].get("ended_at")), -at))
    latest = [found[at] for at in sorted(by_need[:limit])]
    yield from output.listing(f"Job {job_id}", columns, latest, f"Job {job_id} has no steps.")
    if left := len(found) - len(latest):
        yield output.styled(f"and {counted(left, 'earlier step')}; --json has all", "dim")
    if document["signals"]:
        columns = {
            "signal": "name",
            "sent": lambda row: _moment(row["sent_at"], now),
            "key": "key",
            "value": lambda row: _json_text(row["value"]),
        }
        yield from output.listing("Signals not taken yet", columns, document["signals"])


def _moment(value: Any, now: datetime) -> str | None:
    return None if value is None else moment(_time(value), now)


def _time(value: str | datetime) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _result(step: Mapping[str, Any], now: datetime, *, is_over: bool) -> str:
    if step.get("error"):
        return cut(str(step["error"]), LONGEST)
    if step.get("ended_at"):
        return _json_text(step.get("result"))
    if step["kind"] == "sleep" and (until := step.get("until")) and _time(until) <= now:
        return "is over"
    what = {"signal": f" for the signal {step.get('signal')}"}
    what["call"] = f" for job {step.get('child')}"
    until = f" until {_moment(step['until'], now)}" if step.get("until") else ""
    return ("waited" if is_over else "waits") + what.get(step["kind"], "") + until


def _json_text(value: Any) -> str:
    """Return a value as JSON text, shortened; why it is hidden, as such."""
    return value if value in HIDDEN else cut(json.dumps(value, ensure_ascii=False), LONGEST)


@command()
@click.argument("words", metavar="[ID] NAME [VALUE]", nargs=-1, required=True)
@click.option(
    "--of",
    nargs=2,
    metavar="TYPE UNIQUE",
    help="Name the job by its work type and unique key, instead of ID.",
)
@click.option("--key", help="Send nothing if a signal with this name and key was sent before.")
def signal(
    options: GlobalOptions, words: tuple[str, ...], of: tuple[str, str] | None, key: str | None
) -> None:
    """Send a signal to a job that waits for it.

    The signal NAME goes to the job ID, with a VALUE in JSON. A job that does not wait for it yet
    takes it when it does.

    Examples:
        signal 17 approval '{"approved": true}'
        signal --of shop.Checkout order-7 approval true
    """
    number, (name, *rest) = _receiver(words, has_number=of is None)
    value = _value(name, key, *rest)
    from txqueue.store.reads.steps import about_holder

    job_id = number if of is None else read_database(options, about_holder, *of)
    warning = _warning(options, job_id, name)
    sent = operate(options, lambda admin: admin.signal(job_id, name, value, key=key))
    text = f"has the signal {name}" if sent else f"has had a signal {name} with this key before"
    output.say(options, {"job_id": job_id, "is_new": sent}, f"Job {job_id} {text}.")
    if warning:
        output.note(options, warning)


def _receiver(words: Sequence[str], *, has_number: bool) -> tuple[int, Sequence[str]]:
    """Return the number of the job, if it is the first word, and the other words."""
    first = 1 if has_number else 0
    if not first < len(words) <= first + 2:
        takes = "ID NAME [VALUE]" if has_number else "NAME [VALUE] after --of TYPE UNIQUE"
        raise click.UsageError(
            f"signal takes {takes}; a VALUE is one argument, as in '{{\"approved\": true}}'"
        )
    return NUMBER(words[0]) if has_number else 0, words[first:]


def _value(name: str, key: str | None, text: str | None = None) -> Any:
    try:
        check_signal_name(name, key)
        return None if text is None else signal_json(name, text)
    except InvalidWork as error:
        raise click.UsageError(str(error)) from None


def _warning(options: GlobalOptions, job_id: int, name: str) -> str:
    """Return a warning about a signal that the job does not await; empty for none."""
    from txqueue.store.reads.steps import about_awaited, unawaited

    try:
        return unawaited(name, read_database(options, about_awaited, job_id))
    except TxqueueError:
        # A node may answer where the database does not.
        return ""
