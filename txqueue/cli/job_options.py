"""The options and the payload of a job to enqueue, as commands take them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import click

from txqueue.cli.options import Decorator, together
from txqueue.cli.times import Length, zoned
from txqueue.model.enqueue_options import OPTIONS, Option
from txqueue.model.job_policy import UniqueMode
from txqueue.model.storable import find_unstorable_field

__all__ = ["checked_payload", "declared", "job_text", "keyless"]

_MEMBERS: Final = (*(name for name, option in OPTIONS.items() if option.sql is None), "keys")
# How commands take values of a type.
_FORMS: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {},
    float: {"type": Length(), "metavar": "TIME"},
    datetime: {"callback": zoned, "metavar": "WHEN"},
    bool: {"is_flag": True, "default": None},
    UniqueMode: {"type": click.Choice([mode.value for mode in UniqueMode])},
    Sequence[int]: {"type": click.IntRange(0), "multiple": True, "metavar": "ID"},
}
_HINTS: Final[Mapping[Any, str]] = {
    float: ", such as 90s, 5min, 1h",
    datetime: " (ISO 8601 with an offset)",
    Sequence[int]: "; repeatable",
}


def declared(*names: str) -> Decorator:
    """Give a command options of `enqueue`, as these are declared."""
    return together(*(_declared(name, OPTIONS[name]) for name in names))


def _declared(name: str, option: Option) -> Decorator:
    if name == "tags":
        return _tagging()
    flag = name.replace("_", "-")
    # The work type may say True, which False overrules.
    is_pair = option.kind is bool and option.by_class
    flags = f"--{flag}/--no-{flag}" if is_pair else f"--{flag}"
    text = option.about.replace("`", "").removesuffix(".") + _HINTS.get(option.kind, "") + "."
    bounds = option.rule.bounds
    form = {"type": click.IntRange(*bounds)} if bounds else _FORMS[option.kind]
    return click.option(flags, name, help=text, **form)


def _tagging() -> Decorator:
    return click.option(
        "--tag",
        "tags",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_read_tags,
        help="A tag of the job, to find it by; repeatable.",
    )


def _read_tags(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str] | None:
    """Read tags; the database checks them."""
    pairs = [value.partition("=") for value in values]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        error = f"{wrong[0]!r} has no value; write NAME=VALUE"
        raise click.BadParameter(error, context, parameter)
    tags = {name: value for name, _, value in pairs}
    if len(tags) < len(pairs):
        raise click.BadParameter("a tag is given twice; leave one out", context, parameter)
    return tags or None


def keyless() -> Decorator:
    """Give a command the option for a new job without the keys of its type."""
    return click.option(
        "--no-keys",
        "keys",
        is_flag=True,
        flag_value=False,
        default=True,
        help="With only the group, tenant and unique key given here, none of its type.",
    )


def checked_payload(text: str) -> str:
    """Return the payload's text after a check, unparsed, so that no number changes its form.

    Raises:
        click.UsageError: When the text is not a JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise click.UsageError(
            f"the payload is not JSON: {error}; quote it for the shell, like '{{\"user_id\": 7}}'"
        ) from None
    if not isinstance(value, dict):
        raise click.UsageError(
            "the payload is not a JSON object; pass the work item's fields, like '{\"user_id\": 7}'"
        )
    if reason := find_unstorable_field(value):
        raise click.UsageError(f"the payload cannot be stored: {reason}; leave it out")
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it has no {name}")


def job_text(work_type: str, payload: str, columns: Mapping[str, Any]) -> str:
    """Return the JSON text of one job as ``enqueue_many()`` takes it."""
    columns = dict(columns)
    terms = {name: columns.pop(name, None) for name in _MEMBERS}
    options = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in terms.items()
        if value is not None
    }
    values = {"work_type": work_type, **columns, "options": options or None}
    rest = json.dumps({name: value for name, value in values.items() if value not in (None, ())})
    return f'{rest[:-1]}, "payload": {payload}}}'
