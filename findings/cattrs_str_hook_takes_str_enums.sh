#!/usr/bin/env bash
# cattrs: a structure hook registered for str also takes every StrEnum, which is then no longer structured as an enum.
#
# Guess: register_structure_hook(str, ...) changes how str is structured; a StrEnum is still looked up by value.
# Seen (cattrs 26.2.1, Python 3.11): without the hook, "nonsense" is refused and "red" is Colour.RED. With a hook that
# takes only strings, both are accepted and stay plain str, so "nonsense" is in the field and "red" is not Colour.RED.
# An IntEnum and a hook for int are the same. An Enum that is no str is not touched, and a hook made by
# register_structure_hook_func(lambda type_: type_ is str, ...) leaves the StrEnum alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install cattrs==26.2.1
"$folder/venv/bin/python" - <<'PY'
import enum
import importlib.metadata

import attrs
import cattrs


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Plain(enum.Enum):
    RED = "red"


def strictly(kind):
    def hook(value, _):
        if type(value) is not kind:
            raise TypeError(f"no {kind.__name__}: {value!r}")
        return value

    return hook


def structured(converter, kind, value):
    One = attrs.make_class("One", {"field": attrs.field(type=kind)})
    try:
        return repr(converter.structure({"field": value}, One).field)
    except cattrs.ClassValidationError:
        return "refused"


def all_structured(converter):
    return [
        structured(converter, kind, value)
        for kind, value in [(Colour, "nonsense"), (Colour, "red"), (Level, 7), (Level, 1), (Plain, "nonsense")]
    ]


registered = cattrs.Converter()
registered.register_structure_hook(str, strictly(str))
registered.register_structure_hook(int, strictly(int))
exact = cattrs.Converter()
exact.register_structure_hook_func(lambda type_: type_ is str, strictly(str))
exact.register_structure_hook_func(lambda type_: type_ is int, strictly(int))
seen = {
    "no hook": all_structured(cattrs.Converter()),
    "register_structure_hook": all_structured(registered),
    "register_structure_hook_func": all_structured(exact),
}
print(importlib.metadata.version("cattrs"), seen)
as_enum = ["refused", "<Colour.RED: 'red'>", "refused", "<Level.LOW: 1>", "refused"]
assert seen == {
    "no hook": as_enum,
    "register_structure_hook": ["'nonsense'", "'red'", "7", "1", "refused"],
    "register_structure_hook_func": as_enum,
}, seen
PY
