"""The tools for agents that act: one for each act of operators. Each is tried first, in a
transaction that is rolled back; the agent then confirms what it has read, and says why.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import cleandoc
from secrets import token_hex
from typing import Any, Final

import click
from attrs import define, field, frozen

from txqueue.admin import Admin
from txqueue.agents.tools import Schemas, Tool, parameters_of, schemas_of
from txqueue.cli.options import GlobalOptions
from txqueue.cli.output import refusals
from txqueue.cli.root import root
from txqueue.cli.source import account, act_in_database, first
from txqueue.errors import AdminRefused, ConfigurationError
from txqueue.model.humanize import counted
from txqueue.model.operator_acts import ACTS, Act, Value, ValueKind, signed

MOST_JOBS, MOST_NUMBERS, USUAL = 10_000, 100, 1000
"""How many jobs one call changes at most, how many an agent gives by number, and how many that
match are changed if the call does not say.
"""

VALID: Final = 600.0
"""Seconds for which a trial can be confirmed."""

_MOST_TRIALS, _TOLD = 100, 10
# The arguments whose names on the wire say less than those of the stored functions.
_NAMES: Final = {"its_act": "act", "its_payload": "payload"}
_COLUMNS: Final = ("state", "queue", "work_type", "tenant")
_TRIED: Final = (
    " The first call changes nothing: it returns what would change, and a text for `confirm`. A"
    " second call with the same arguments, that text and a reason does it."
)
_CONFIRMING: Final[Schemas] = {
    "confirm": {"type": "string", "description": "What the first call has returned."},
    "reason": {
        **{"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^\x00-\x1f]*\S$"},
        "description": "Why, in one line; it is recorded with the act.",
    },
}
_SCHEMAS: Final[Mapping[ValueKind, Mapping[str, Any]]] = {
    ValueKind.TEXT: {"type": "string"},
    ValueKind.WHOLE: {"type": "integer"},
    ValueKind.NUMBER: {"type": "number"},
    ValueKind.FLAG: {"type": "boolean"},
    ValueKind.MOMENT: {
        "type": "string",
        "description": "now, a length of time from now, such as 2h, or 2026-11-22T13:00Z.",
    },
    ValueKind.JSON: {"type": "object"},
    ValueKind.NAMES: {"type": "array", "items": {"type": "string"}},
}


@frozen
class Trial:
    """What an agent may confirm.

    Attributes:
        name: The name of the act.
        given: The arguments of the trial.
        ids: The jobs that it was about; None if the act is not about jobs.
        until: When it can no longer be confirmed, by the monotonic clock.
    """

    name: str
    given: Mapping[str, Any]
    ids: Sequence[int] | None
    until: float


@define(eq=False)
class Acting:
    """Tries the acts of an agent, and carries out those that it confirms.

    Args:
        options: Name the database.
    """

    _options: GlobalOptions
    _trials: dict[str, Trial] = field(init=False, factory=dict)

    def tools(self) -> Iterator[Tool]:
        """Yield a tool for each act that clients of nodes have."""
        for name, act in ACTS.items():
            if not act.command and not name.endswith("_schedule"):
                continue
            about = act.face.text if act.face else _about(name)
            yield Tool(
                act.face.word if act.face else name,
                cleandoc(about).partition("\n\nExamples:")[0] + _TRIED,
                {**_choosing(act), **_arguments(act), **_CONFIRMING},
                [_name_of(value) for value in act.arguments if not value.is_optional],
                partial(self._call, name),
                is_act=True,
            )

    def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = {key: value for key, value in arguments.items() if key not in _CONFIRMING}
        if "confirm" not in arguments:
            return self._try(name, given)
        trial = self._confirmed(name, arguments, given)
        who = signed(f"{account()} by an agent", arguments["reason"])
        return {"done": _words(name), "answer": self._act(trial, who=who), "who": who}

    def _try(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an act would change, and what confirms it."""
        rows = None
        if ACTS[name].states:
            rows = act_in_database(self._options, lambda admin: _chosen(admin, name, given))
        most = given.get("at_most", USUAL)
        ids = None if rows is None else [row["job_id"] for row in rows[:most]]
        trial = Trial(name, given, ids, time.monotonic() + VALID)
        answer = self._act(trial, is_trial=True)
        # What is rolled back has no number.
        answer = {key: value for key, value in answer.items() if key not in ("act", "acts")}
        confirm = token_hex(8)
        self._trials[confirm] = trial
        if len(self._trials) > _MOST_TRIALS:
            del self._trials[next(iter(self._trials))]
        tried = {"would": _words(name), "answer": answer, "confirm": confirm}
        if rows is not None:
            tried |= _summed(rows[:most], answer, is_more=len(rows) > most)
            tried["would"] = f"{_words(name)} {tried['would']}"
        return tried

    def _confirmed(
        self, name: str, arguments: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Trial:
        """Return the trial that a call confirms; it can be confirmed once.

        Raises:
            ConfigurationError: When there is no such trial, or no reason.
        """
        if "reason" not in arguments:
            raise ConfigurationError("an act needs a reason", "say why in one line")
        trial = self._trials.get(arguments["confirm"])
        is_its = trial is not None and (trial.name, trial.given) == (name, given)
        if trial is None or not is_its or trial.until < time.monotonic():
            raise ConfigurationError(
                f"the text confirms no trial of {name} with these arguments",
                "call it without confirm first, read the answer, and confirm it in ten minutes",
            )
        return self._trials.pop(arguments["confirm"])

    def _act(
        self, trial: Trial, *, who: str | None = None, is_trial: bool = False
    ) -> dict[str, Any]:
        """Carry out an act; return its answer, with why it has left jobs unchanged."""
        arguments = {
            value.name: _sent(value, trial.given[_name_of(value)])
            for value in ACTS[trial.name].arguments
            if _name_of(value) in trial.given
        }

        async def act(admin: Admin) -> dict[str, Any]:
            answer = await admin.act(trial.name, ids=trial.ids, **arguments)
            if trial.ids is None:
                return answer
            numbers = answer.pop("acts")
            told = {name: {"jobs": len(ids), "first": ids[:_TOLD]} for name, ids in answer.items()}
            reasons = await refusals(admin, trial.name, answer["refused"])
            return {**told, "reasons": reasons, "acts": numbers}

        return act_in_database(self._options, act, who=who, is_trial=is_trial)


def _about(name: str) -> str:
    """Return what an act does that is not about chosen jobs, as its method or command says it."""
    if method := getattr(Admin, name, None):
        return str(method.__doc__)
    commands = (root.get_command(click.Context(root), word) for word in name.split("_"))
    return next(command.help or name for command in commands if command)


def _arguments(act: Act) -> Schemas:
    return {_name_of(value): _argument(value) for value in act.arguments}


def _name_of(value: Value) -> str:
    return _NAMES.get(value.parameter, value.name)


def _argument(value: Value) -> Mapping[str, Any]:
    # A signal carries any value.
    schema = {} if value.name == "value" else dict(_SCHEMAS[value.kind])
    if value.kind is ValueKind.WHOLE:
        schema["maximum"] = value.most
    return {"description": value.said, **schema} if value.said else schema


def _filters() -> Schemas:
    """Return the filters of a list of jobs, as nodes know them."""
    schemas = schemas_of(parameters_of("jobs")[1])
    left_out = {"limit", "after", "running_for"}
    kind = {"type": "string", "description": "Only jobs with this kind of failure."}
    return {name: schemas[name] for name in schemas if name not in left_out} | {"fingerprint": kind}


_FILTERS: Final = _filters()


def _choosing(act: Act) -> Schemas:
    """Return the arguments that choose the jobs of an act: numbers, or the filters of a list."""
    if not act.states:
        return {}
    numbers = {"type": "array", "items": {"type": "integer"}, "maxItems": MOST_NUMBERS}
    most = {"type": "integer", "minimum": 1, "maximum": MOST_JOBS, "default": USUAL}
    return {
        "ids": {**numbers, "description": "The numbers of the jobs; or give filters."},
        **_FILTERS,
        "state": {"enum": list(act.states), "description": "Only jobs in this state."},
        "at_most": {**most, "description": "Change up to this many, newest first."},
    }


async def _chosen(admin: Admin, name: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs that an act is about, and one more if more match than it may change.

    Raises:
        ConfigurationError: When there are neither numbers nor filters, or both.
    """
    names = _FILTERS.keys() - _arguments(ACTS[name]).keys()
    filters = {key: value for key, value in given.items() if key in names}
    ids = given.get("ids", [])
    if bool(ids) == bool(filters):
        what = f"{name} needs the jobs that are meant"
        raise ConfigurationError(what, "give ids or filters, such as queue, and not both")
    rows = [await _job(admin, job_id) for job_id in ids]
    if filters:
        rows = await first(admin.jobs(act=name, **filters), given.get("at_most", USUAL) + 1)
    return rows


async def _job(admin: Admin, job_id: int) -> dict[str, Any]:
    try:
        return await admin.job(job_id)
    except AdminRefused:
        return {"job_id": job_id}


def _summed(
    rows: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], *, is_more: bool
) -> dict[str, Any]:
    """Return how many jobs an act would change, and of which kinds."""
    counts = {
        column: Counter(row[column] for row in rows if row.get(column) is not None)
        for column in _COLUMNS
    }
    would = counted(len(rows) - answer["refused"]["jobs"], "job")
    if counts["tenant"]:
        would += f" of {counted(len(counts['tenant']), 'tenant')}"
    more = "; more match than at_most" if is_more else ""
    by = {column: dict(each.most_common(_TOLD)) for column, each in counts.items()}
    return {"would": would + more, "jobs_by": by}


def _words(name: str) -> str:
    return name.removesuffix("_jobs").replace("_", " ")


def _sent(value: Value, given: Any) -> Any:
    """Return an argument as the act's command takes it."""
    if value.kind is ValueKind.JSON:
        return json.dumps(given)
    return ",".join(given) if value.kind is ValueKind.NAMES else given
