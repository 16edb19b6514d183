"""JSON Schemas of payloads, draft 2020-12: what workers read as the work items of a class."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import attrs
from attrs import define, field
from cattrs.cols import is_namedtuple

from txqueue.model.record_types import (
    fields_of,
    is_model,
    is_object_class,
    is_typed_dict,
    unwrapped,
)
from txqueue.model.storable import CONSTANT, find_unstorable
from txqueue.model.strict_types import collection_form, converter
from txqueue.model.work_item import WorkItem

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_OTHER_CHARACTERS: Final = re.compile(r"[^\w.]+")
# These words of a schema have names below them.
_NAMING: Final = ("properties", "$defs")
# A subclass comes before its base.
_SCALARS: Final[Mapping[type, Schema]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "format": "decimal"},
    bytes: {"type": "string"},
    str: {"type": "string"},
}


def payload_schema(cls: type[WorkItem]) -> Schema | None:
    """Return the JSON Schema of the payloads of a work type; None if it cannot be encoded.

    Defaults of a redacted or encrypted class are left out.
    """
    makes = _Schemas(has_defaults=not (cls.redacted or cls.encrypted))
    try:
        body = makes.of_objects(cls)
    except Exception:
        # An annotation cannot be evaluated; to enqueue such an item is refused.
        return None
    about = {"$schema": DIALECT, "title": cls.work_type, **_description(cls)}
    about |= {"allOf": [rule]} if (rule := getattr(cls, "payload_rule", None)) else {}
    return {**body, **about, **({"$defs": makes.parts} if makes.parts else {})}


def _description(cls: type) -> Schema:
    text = (cls.__doc__ or "").strip().partition("\n")[0]
    # A dataclass without one gets its signature.
    return {"description": text} if text and not text.startswith(f"{cls.__name__}(") else {}


@define
class _Schemas:
    """Makes the schemas of types; those of classes are parts, which may refer to each other."""

    has_defaults: bool
    parts: dict[str, Schema] = field(factory=dict)
    names: dict[type, str] = field(factory=dict)

    def of(self, annotation: Any) -> Schema:
        """Return the schema of the values of a type; of one that has no rule, that of any value."""
        kind = unwrapped(annotation)
        if get_origin(kind) in (Union, UnionType):
            return {"anyOf": [self.of(each) for each in get_args(kind)]}
        if get_origin(kind) is Literal:
            return _choice(get_args(kind))
        cls = get_origin(kind) or kind
        if not isinstance(cls, type):
            return {}
        return self._of_class(cls, kind)

    def _of_class(self, cls: Any, kind: Any) -> Schema:
        if is_object_class(cls) or is_typed_dict(cls):
            return {"$ref": f"#/$defs/{self._part(cls)}"}
        if issubclass(cls, Enum):
            return {} if issubclass(cls, Flag) else _choice(cls)
        if is_namedtuple(cls):
            return self._tuple(list(get_type_hints(cls, include_extras=True).values()))
        if (form := collection_form(kind)) is not None:
            return self._collection(form, cls, list(get_args(kind)))
        return next((dict(made) for base, made in _SCALARS.items() if issubclass(cls, base)), {})

    def _collection(self, form: type, cls: type, among: list[Any]) -> Schema:
        if form is dict:
            values = int if issubclass(cls, Counter) else among[-1] if among else Any
            return {"type": "object", "additionalProperties": self.of(values)}
        if issubclass(cls, tuple) and among and among[-1] is not Ellipsis:
            return self._tuple(among)
        return {"type": "array", "items": self.of(among[0]) if among else {}}

    def _tuple(self, kinds: list[Any]) -> Schema:
        if not kinds:
            return {"type": "array", "maxItems": 0}
        items = [self.of(kind) for kind in kinds]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}

    def _part(self, cls: type) -> str:
        if cls not in self.names:
            name = _OTHER_CHARACTERS.sub("-", cls.__qualname__)
            while name in self.parts:
                name += "_"
            self.names[cls], self.parts[name] = name, {}
            self.parts[name] = self.of_objects(cls, name)
        return self.names[cls]

    def of_objects(self, cls: Any, name: str = "") -> Schema:
        """Return the schema of the objects of a class with fields, which is the part of a name."""
        if is_model(cls):
            return self._of_model(cls, name)
        fields = [each for each in fields_of(cls) if each.init]
        required = [each.name for each in fields if each.default is attrs.NOTHING]
        return {
            "type": "object",
            "properties": {each.name: self.of(each.type) | self._default(each) for each in fields},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def _of_model(self, cls: Any, name: str) -> Schema:
        try:
            made: Schema = _without_key_types(
                cls.model_json_schema(ref_template=f"#/$defs/{name}--{{model}}")
            )
        except Exception:
            # Pydantic reads some types for which JSON Schema has no words.
            return {"type": "object"}
        parts = made.pop("$defs", {})
        self.parts.update({f"{name}--{part}": schema for part, schema in parts.items()})
        return made

    def _default(self, of: Any) -> Schema:
        """Return the default of a field, if it has one that is no function's."""
        default = of.default
        is_made = default is attrs.NOTHING or isinstance(default, attrs.Factory)  # type: ignore[arg-type]
        if is_made or not self.has_defaults:
            return {}
        with suppress(Exception):
            plain = converter.unstructure(default, unstructure_as=of.type)
            if find_unstorable(plain) is None:
                return {"default": plain}
        return {}


def _without_key_types(made: Any, *, has_words: bool = True) -> Any:
    """Return a schema that takes any keys: pydantic names those of an enum of numbers as numbers.

    In JSON all keys are strings. Names of properties and of parts are no words of a schema.
    """
    if isinstance(made, list):
        return [_without_key_types(each) for each in made]
    if not isinstance(made, dict):
        return made
    return {
        word: _without_key_types(each, has_words=not has_words or word not in _NAMING)
        for word, each in made.items()
        if not has_words or word != "propertyNames"
    }


def _choice(members: Any) -> Schema:
    values = [each.value if isinstance(each, Enum) else each for each in members]
    return {"enum": values} if all(type(each) in {*CONSTANT, float} for each in values) else {}
