"""The tools for agents that read: commands of the command line, with the same parameters and the
same JSON.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any, Final

import click
from attrs import evolve, frozen

from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import root
from txqueue.errors import ConfigurationError
from txqueue.model.job_filters import check_storable
from txqueue.policy.pagination import as_text

READS: Final = (
    *("status", "nodes", "jobs", "job", "explain", "steps", "failures", "schedules"),
    *("history", "stats", "limits", "tenants", "actions"),
)
"""The commands that agents may use to read."""

LONGEST: Final = 200_000
"""The most characters of an answer, as an agent reads all of it."""

WITH_PAYLOAD: Final = "with_payload"
_WITHHELD: Final = frozenset({"payload", "result", "value"})
_SHOWING: Final = {
    WITH_PAYLOAD: {
        "type": "boolean",
        "description": "Show payloads, results and values; never redacted or encrypted ones.",
    }
}


@frozen
class Tool:
    """A tool for agents.

    Attributes:
        name: Its name.
        text: What it does.
        parameters: The JSON schema of each parameter by its name.
        call: Carries it out with checked arguments, and returns a document.
        required: The parameters without which it is not called.
        is_act: Whether it changes anything.
    """

    name: str
    text: str
    parameters: Mapping[str, Mapping[str, Any]]
    call: Callable[[Mapping[str, Any]], Any]
    required: Sequence[str] = ()
    is_act: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def answer(self, arguments: Mapping[str, Any]) -> str:
        """Carry it out, and return its answer as JSON text.

        Raises:
            ConfigurationError: When an argument is unknown, missing or not of its kind, or the
                answer is too long.
        """
        for name in arguments.keys() - self.parameters.keys():
            names = ", ".join(self.parameters) or "none"
            raise ConfigurationError(f"{self.name} has no {name!r}", f"its arguments are: {names}")
        for name in self.required:
            if name not in arguments:
                raise ConfigurationError(f"{self.name} needs {name!r}", "pass it")
        for name, value in arguments.items():
            _check(name, value, self.parameters[name])
        text = as_text(self.call(arguments))
        if len(text) > LONGEST:
            raise ConfigurationError(
                f"the answer of {self.name} has {len(text):,} characters",
                f"ask for less: at most {LONGEST:,} characters are returned",
            )
        return text


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Check that an argument is of its kind, as clients of the protocol need not.

    Raises:
        ConfigurationError: When it is not, or has a character that no text in the database has.
    """
    kind = schema.get("type")
    if kind is not None and (
        not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")
    ):
        raise ConfigurationError(f"{name} is not of the type {kind}", "see the tool's schema")
    if isinstance(value, str):
        check_storable(value)
    if isinstance(value, list):
        for element in value:
            _check(name, element, schema["items"])


def read_tools(options: GlobalOptions) -> Iterator[Tool]:
    """Yield a tool for each command that agents may use to read.

    Args:
        options: Name the database.
    """
    # No node is asked: the reactor that this takes runs once in a process.
    quiet = evolve(options, json=True, node="")
    for name in READS:
        command = root.get_command(click.Context(root), name)
        if command is not None:
            yield _tool_of(name, command, quiet)


def _tool_of(name: str, command: click.Command, options: GlobalOptions) -> Tool:
    # Flags are for people: they watch.
    chosen = [
        each
        for each in command.params
        if each.expose_value and not getattr(each, "is_flag", False) and each.name is not None
    ]
    parameters = {str(each.name): _schema_of(each) for each in chosen}
    return Tool(
        name,
        command.help or name,
        {**parameters, **_SHOWING},
        partial(_read, name, chosen, options),
        [str(each.name) for each in chosen if each.required],
    )


def _schema_of(parameter: click.Parameter) -> dict[str, Any]:
    info = parameter.type.to_info_dict()
    kinds = {"IntRange": "integer", "Int": "integer", "FloatRange": "number", "Float": "number"}
    schema: dict[str, Any] = {"type": kinds.get(info["param_type"], "string")}
    bounds = {"minimum": info.get("min"), "maximum": info.get("max"), "enum": info.get("choices")}
    schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if parameter.multiple or parameter.nargs != 1:
        schema = {"type": "array", "items": schema}
    text = getattr(parameter, "help", None) or parameter.make_metavar(click.Context(root))
    return {**schema, "description": text}


def _read(
    name: str,
    parameters: Sequence[click.Parameter],
    options: GlobalOptions,
    arguments: Mapping[str, Any],
) -> Any:
    """Run the command, and return the document that it prints."""
    printed = io.StringIO()
    words = [name, *_words(parameters, arguments)]
    with redirect_stdout(printed):
        root.main(words, prog_name="txqueue", standalone_mode=False, obj=evolve(options))
    document = json.loads(printed.getvalue())
    return document if arguments.get(WITH_PAYLOAD) else _withheld(document)


def _words(parameters: Sequence[click.Parameter], arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments as the command line has them; no value can be taken for an option."""
    places: list[str] = []
    for each in parameters:
        given = arguments.get(str(each.name), [])
        values = given if isinstance(given, list) else [given]
        if isinstance(each, click.Argument):
            places += map(str, values)
        else:
            yield from (f"{each.opts[0]}={value}" for value in values)
    yield from ["--", *places]


def _withheld(value: Any) -> Any:
    """Return a document without the data of jobs."""
    if isinstance(value, list):
        return [_withheld(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: f"not shown: pass {WITH_PAYLOAD}"
        if name in _WITHHELD and part is not None
        else _withheld(part)
        for name, part in value.items()
    }
