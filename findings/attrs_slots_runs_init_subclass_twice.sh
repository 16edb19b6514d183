#!/usr/bin/env bash
# attrs: with slots, __init_subclass__ of a parent runs twice for each class; without slots, before there are any fields.
#
# Guess: a parent's __init_subclass__ runs once for each class that attrs.define decorates, and may read its fields.
# Seen (attrs 26.1.0): with slots, which is the default, it runs for the class of the statement, whose own fields attrs
# does not know yet, and again for the copy with slots, which has them. With slots=False it runs once, and never sees
# the fields. A registry by name has the right class at last; a check of the fields, or a count of classes, does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install attrs==26.1.0
"$folder/venv/bin/python" - <<'PY'
import importlib.metadata

import attrs

calls = []


class Parent:
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        calls.append((cls.__name__, "__attrs_attrs__" in vars(cls)))


@attrs.define
class Slotted(Parent):
    number: int


@attrs.define(slots=False)
class Plain(Parent):
    number: int


print(importlib.metadata.version("attrs"), calls)
assert calls == [("Slotted", False), ("Slotted", True), ("Plain", False)], calls
PY
