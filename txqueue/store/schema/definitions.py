"""The functions and views that the package's SQL files define, as the catalog describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from attrs import frozen

from txqueue.store.schema.files import functions

__all__ = ["Definition", "definitions"]

# A view's name; or a function's name, arguments, attributes and body.
_DEFINED: Final = re.compile(
    r"^create or replace (?:view \w+\.(\w+)"
    r"|function \w+\.(\w+)\((.*?)\)\s+(?:returns|language)\b(.*?)\bas \$\$(.*?)\$\$)",
    re.MULTILINE | re.DOTALL,
)
_SETTING: Final = re.compile(r'\bset "?(\w+)"? = ([^\n]+)')
_BETWEEN_ARGUMENTS: Final = re.compile(r",(?![^(]*\))")
# The names of types in pg_type that SQL spells otherwise.
_TYPES: Final = {
    "bigint": "int8",
    "boolean": "bool",
    "double precision": "float8",
    "integer": "int4",
    "smallint": "int2",
}


@frozen
class Definition:
    """A function, or a view.

    Attributes:
        name: Its name; that of a function with `()`.
        signature: The name, for a function with the types of its arguments, as in `pg_type`.
        digest: A digest of a function's rights, settings and body; None for a view.
    """

    name: str
    signature: str
    digest: str | None


def definitions(schema: str) -> Iterator[Definition]:
    """Yield each function and view of the package."""
    for _, sql in functions(schema):
        for view, name, arguments, attributes, body in _DEFINED.findall(sql):
            if view:
                yield Definition(view, view, None)
            else:
                signature = f"{name}({','.join(_types(arguments))})"
                yield Definition(f"{name}()", signature, _digest(attributes, body))


def _types(arguments: str) -> Iterator[str]:
    """Yield the types of the arguments that a caller passes."""
    for argument in filter(None, _BETWEEN_ARGUMENTS.split(arguments.strip())):
        first, its_type = argument.partition(" default ")[0].split(None, 1)
        if first == "inout":
            its_type = its_type.split(None, 1)[1]
        if first != "out":
            yield _type_name(its_type.strip().rpartition(".")[2])


def _type_name(spelled: str) -> str:
    base = spelled.removesuffix("[]")
    return ("_" if base != spelled else "") + _TYPES.get(base, base)


def _digest(attributes: str, body: str) -> str:
    """Return the digest that `OTHER_FUNCTIONS` makes of a function's row in the catalog."""
    settings = sorted(
        f"{name}={value.strip()}".replace("'", "") for name, value in _SETTING.findall(attributes)
    )
    rights = "t" if "security definer" in attributes else "f"
    return sha256("\n".join([rights, *(settings or [""]), body]).encode()).hexdigest()
