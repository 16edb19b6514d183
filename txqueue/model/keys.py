"""Keys that a class declares as text with fields in it, which the database computes as well."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from inspect import getattr_static
from string import Formatter
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, overload
from uuid import UUID

import attrs

from txqueue.errors import InvalidWork
from txqueue.model.humanize import brief
from txqueue.model.record_types import field_names, fields_of, is_object_class, unwrapped
from txqueue.model.storable import is_name

KEYS: Final = ("group", "tenant", "unique")
"""The properties of a work item that may be declared as a `Key`."""

LONGEST_KEYS: Final[Mapping[str, int]] = {"group": 1000, "tenant": 200, "unique": 1000}
"""How many characters each may have at most."""

Path = tuple[str, ...]

_KINDS: Final[Mapping[Any, str]] = {
    str: "text",
    int: "integer",
    bool: "boolean",
    date: "date",
    UUID: "uuid",
}
_IN_BRACES: Final = re.compile(r"\{(\w+)(?:\.\w+)*\}")
_SIMPLE: Final = "text, whole numbers, booleans, dates, UUIDs, enums of text or of whole numbers"


class Key:
    """A key made of fields of the work item: ``group = Key("customer:{customer_id}")``.

    Set it as ``group``, ``tenant`` or ``unique`` of a class. Nodes publish it with the work type,
    and the database computes it for clients that do not have the class. A key is None if a field in
    it is None.

    Args:
        template: The text, with the name of a field in each pair of braces; ``{order.number}`` is a
            field of a nested class; ``{{`` and ``}}`` are braces.

    Raises:
        InvalidWork: When the template cannot be read.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        self._parts = tuple(_parsed(template))

    @overload
    def __get__(self, work: None, cls: type) -> Key: ...

    @overload
    def __get__(self, work: object, cls: type) -> str | None: ...

    def __get__(self, work: object | None, cls: type) -> Key | str | None:
        if work is None:
            return self
        texts = [part if isinstance(part, str) else _text_at(part, work) for part in self._parts]
        return None if None in texts else "".join(filter(None, texts))

    def __repr__(self) -> str:
        return f"Key({self.template!r})"


def parts_of(key: Key, cls: type) -> list[Any]:
    """Return the parts of a key as the database reads them: texts, and paths to members.

    Raises:
        InvalidWork: When a member is not a field that the database can read.
    """
    parts = _parsed(key.template)
    return [part if isinstance(part, str) else _member(part, cls) for part in parts]


def _parsed(template: str) -> Iterator[str | Path]:
    try:
        pieces = list(Formatter().parse(template))
    except (TypeError, ValueError) as error:
        raise _bad_template(template, str(error)) from None
    if not pieces:
        raise _bad_template(template, "it is empty")
    for text, name, form, conversion in pieces:
        if text:
            yield text
        if name is None:
            continue
        path = tuple(name.split("."))
        if form or conversion or not all(map(str.isidentifier, path)):
            raise _bad_template(template, "braces take the name of a field, and nothing else")
        yield path


def _bad_template(template: object, why: str) -> InvalidWork:
    return InvalidWork(
        f"the key {template!r} cannot be read: {why}",
        'name fields in braces, as in Key("customer:{customer_id}"); write {{ for a brace',
    )


def _text_at(path: Path, work: object) -> str | None:
    value = work
    for name in path:
        value = getattr(value, name)
        if value is None:
            return None
    return _text(value)


def _text(value: Any) -> str:
    """Return a value as the database writes it."""
    plain = _plain(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return plain if isinstance(plain, str) else str(plain)


def _plain(value: Any) -> Any:
    """Return a value as a payload has it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _member(path: Path, cls: Any) -> dict[str, Any]:
    """Return the steps to a member, each with the default of its field, and the member's kind."""
    steps: list[list[Any]] = []
    kind: Any = cls
    for at, name in enumerate(path):
        field = _field(kind, name, path[: at + 1])
        default = field.default
        has_default = default is not attrs.NOTHING and not isinstance(default, attrs.Factory)  # type: ignore[arg-type]
        steps.append([name, _nested(default, path[at + 1 :])] if has_default else [name])
        kind = _meant(field.type)
    simple = _simple_kind(kind)
    if simple is None:
        raise InvalidWork(
            f"a key cannot be made of {'.'.join(path)}, as its values have no fixed text",
            f"name fields that are {_SIMPLE}, or None instead",
        )
    return {"path": steps, "kind": simple}


def _field(cls: Any, name: str, path: Path) -> Any:
    if not is_object_class(cls):
        raise _no_field(path, "it is not in a class with fields")
    field = next((each for each in fields_of(cls) if each.name == name), None)
    if field is None or not field.init:
        raise _no_field(path, f"{cls.__qualname__} has no such field in its payload")
    if field.converter is not None:
        raise _no_field(path, "the field has a converter, which the database cannot run")
    return field


def _no_field(path: Path, why: str) -> InvalidWork:
    return InvalidWork(
        f"a key cannot be made of {'.'.join(path)}: {why}",
        "name fields of the class, or of classes in it",
    )


def _nested(default: Any, path: Path) -> Any:
    """Return as much of the default of a field as a key reads."""
    if default is None or not path:
        return _plain(default)
    return {path[0]: _nested(getattr(default, path[0]), path[1:])}


def _meant(annotation: Any) -> Any:
    """Return the type that an annotation stands for, without None."""
    kind = unwrapped(annotation)
    is_union = get_origin(kind) in (Union, UnionType)
    among = [each for each in get_args(kind) if each is not NoneType] if is_union else []
    return _meant(among[0]) if len(among) == 1 else kind


def _simple_kind(kind: Any) -> str | None:
    if get_origin(kind) is Literal:
        return _common_kind(value for value in get_args(kind) if value is not None)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _common_kind(member.value for member in kind)
    return _KINDS.get(kind)


def _common_kind(values: Iterable[Any]) -> str | None:
    kinds = {_KINDS.get(type(value)) for value in values}
    return kinds.pop() if len(kinds) == 1 else None


def check_constant(name: str, value: object) -> None:
    """Check a key that is the same for all jobs of a class.

    Raises:
        InvalidWork: When no job of the class could be enqueued.
    """
    most = LONGEST_KEYS[name]
    if value is not None and not is_name(value, most):
        raise InvalidWork(
            f"{name} {brief(value)} is neither a text nor a Key",
            f"give 1 to {most} characters without NUL, the same for all jobs, or a"
            ' Key("customer:{customer_id}") made of fields',
        )


def check_text(name: str, text: object, fields: Container[str]) -> None:
    """Check that a key which is a text names no field, as only a `Key` does.

    Raises:
        InvalidWork: When it has the name of a field in braces.
    """
    named = _IN_BRACES.findall(text) if isinstance(text, str) else ()
    for field in filter(fields.__contains__, named):
        raise InvalidWork(
            f"{name} {brief(text)} is a text, in which {{{field}}} stands for no field",
            f"declare it in the class, as {name} = Key(...) of that text; for one call, write the"
            " value itself",
        )


def check_keys(cls: type) -> None:
    """Check the keys that a class declares, as far as its annotations can be resolved yet.

    Raises:
        InvalidWork: When a key names what the database cannot read, or a text names a field.
    """
    for name in KEYS:
        key = getattr_static(cls, name)
        try:
            check_text(name, key, field_names(cls))
            if isinstance(key, Key):
                parts_of(key, cls)
        except InvalidWork as error:
            raise InvalidWork(f"{cls.__qualname__}.{name}: {error.what}", error.remedy) from None
        except Exception:
            # An annotation names what is defined later: the first use checks the class again.
            continue


def published_keys(cls: type, declared: Iterable[str]) -> dict[str, Any]:
    """Return the keys of a class by name, as the database reads them.

    Args:
        cls: The class of the work items.
        declared: The names of those that the class itself, or a base of its own, defines.

    Returns:
        The parts of each key; None for one that only the class can compute.
    """
    keys = {name: getattr_static(cls, name) for name in KEYS if name in declared}
    return {name: _parts(cls, name, key) for name, key in keys.items() if key is not None}


def _parts(cls: Any, name: str, key: object) -> list[Any] | None:
    if isinstance(key, str):
        return [key]
    try:
        if isinstance(key, Key):
            return parts_of(key, cls)
        # A field of that name is the key.
        return parts_of(Key(f"{{{name}}}"), cls)
    except InvalidWork:
        if isinstance(key, Key):
            raise
        return None
    except Exception:
        # An annotation cannot be resolved; to enqueue such an item is refused.
        return None


def key_texts(policy: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the keys that a published policy declares, by name, as a class writes them."""
    keys = (policy or {}).get("keys") or {}
    pairs = [(name, parts) for name, parts in keys.items() if name in KEYS]
    return [(name, _written(parts)) for name, parts in sorted(pairs)]


def _written(parts: Any) -> str:
    if not isinstance(parts, list):
        return "computed by its class"
    return "".join(
        part.replace("{", "{{").replace("}", "}}")
        if isinstance(part, str)
        else f"{{{'.'.join(step[0] for step in part['path'])}}}"
        for part in parts
    )
