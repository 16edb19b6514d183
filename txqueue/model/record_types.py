"""The kinds of classes with fields that payloads are made of, and their fields in one form.

These are attrs classes, dataclasses, TypedDicts and models of pydantic, which is never imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Sequence
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

import attrs


@attrs.frozen
class RecordField:
    """A field of a dataclass, TypedDict or model, with the names that attrs has for the same.

    Attributes:
        name: The name of the attribute, or of the key of a TypedDict.
        type: The annotation, evaluated.
        default: The default; ``attrs.NOTHING`` for a field that is required.
        init: Whether payloads have it under its name.
        eq: Whether it is part of the equality of two objects.
        converter: None, as only attrs has them.
    """

    name: str
    type: Any
    default: Any = attrs.NOTHING
    init: bool = True
    eq: bool = True
    converter: None = None


def is_model(kind: Any) -> bool:
    """Tell whether a type is a model of pydantic 2."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json")


def is_typed_dict(kind: Any) -> bool:
    """Tell whether a type is a TypedDict, of typing or of typing_extensions."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def is_object_class(kind: Any) -> bool:
    """Tell whether a type is a class whose objects have fields as attributes."""
    is_class = isinstance(kind, type)
    return is_class and (attrs.has(kind) or dataclasses.is_dataclass(kind) or is_model(kind))


def unwrapped(kind: Any) -> Any:
    """Return the type below ``Annotated``, ``NewType`` and aliases."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif (below := getattr(kind, "__supertype__", getattr(kind, "__value__", None))) is None:
            return kind
        else:
            kind = below


def fields_of(cls: Any) -> Sequence[Any]:
    """Return the fields of a class: those of attrs, or `RecordField`; none of any other type.

    Raises:
        NameError: When an annotation cannot be evaluated.
    """
    if attrs.has(cls):
        fields: Sequence[Any] = attrs.fields(attrs.resolve_types(cls))
        return fields
    if not is_object_class(cls) and not is_typed_dict(cls):
        return ()
    return tuple(_record_fields(cls, get_type_hints(cls, include_extras=True)))


def field_names(cls: Any) -> Container[str]:
    """Return the names of the fields of a class of objects, which need no annotations for that."""
    if attrs.has(cls):
        return attrs.fields_dict(cls)
    own = "model_fields" if is_model(cls) else "__dataclass_fields__"
    return frozenset(getattr(cls, own, ()))


def _record_fields(cls: Any, hints: dict[str, Any]) -> Iterator[RecordField]:
    if is_model(cls):
        for name, info in cls.model_fields.items():
            has_own_name = (info.validation_alias or name) == (info.serialization_alias or name)
            is_plain = has_own_name and info.alias in (None, name)
            yield RecordField(name, hints[name], _default(info, info.is_required()), is_plain)
    elif is_typed_dict(cls):
        for name, hint in hints.items():
            is_required, kind = _requirement(hint, name in cls.__required_keys__)
            yield RecordField(name, kind, attrs.NOTHING if is_required else None)
    else:
        for each in dataclasses.fields(cls):
            no_default = each.default is each.default_factory is dataclasses.MISSING
            default = _default(each, no_default)
            yield RecordField(each.name, hints[each.name], default, each.init, each.compare)


def _requirement(kind: Any, is_required: bool) -> tuple[bool, Any]:
    """Return whether a key is required, and its type without the marks of that."""
    while (mark := get_origin(kind)) in (Required, NotRequired):
        is_required, kind = mark is Required, get_args(kind)[0]
    return is_required, kind


def _default(field: Any, is_required: bool) -> Any:
    if is_required:
        return attrs.NOTHING
    factory = field.default_factory
    if factory is None or factory is dataclasses.MISSING:
        return field.default
    return attrs.Factory(factory)
