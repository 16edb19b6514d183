"""Converts work items to JSON and back, and refuses a value that would change on the way."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import attrs
from cattrs import (
    BaseValidationError,
    ForbiddenExtraKeysError,
    StructureHandlerNotFoundError,
    transform_error,
)
from cattrs.gen import make_dict_unstructure_fn
from cattrs.v import format_exception

from txqueue.errors import InvalidWork, UnreadablePayload
from txqueue.model.keys import check_keys
from txqueue.model.record_types import fields_of, is_model, is_object_class
from txqueue.model.storable import find_unstorable, is_json_already, to_json
from txqueue.model.strict_types import converter, model_members, strict_converter
from txqueue.model.work_item import WorkItem, is_work_type
from txqueue.model.workset_item import WorksetItem

_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = frozenset({int, float})
_type: Callable[[Any], Any] = type


def find_change(original: Any, copy: Any, path: str = "$") -> str | None:
    """Return what differs, and where, without a value; None if both are equal and of one type.

    An int equals a float of the same value, as a field of floats takes ints, and the database
    returns floats from 1e16 without a fraction.

    Args:
        original: The object that was converted.
        copy: What was made from its JSON.
        path: Where in the whole object both are.
    """
    kind = _type(original)
    if kind is _type(copy):
        if kind in _SCALARS:
            return _change_of_value(original, copy, path)
        return _comparer(kind)(original, copy, path)
    if {kind, _type(copy)} <= _NUMBERS and original == copy:
        return None
    return f"{_name(original)} would arrive as {_name(copy)} @ {path}"


@cache
def _comparer(kind: Any) -> Callable[[Any, Any, str], str | None]:
    """Return the function that compares two values of a type."""
    for classes, comparer in _COMPARERS.items():
        if issubclass(kind, classes):
            return comparer
    if is_model(kind):
        return _change_of_model
    return _change_of_fields if _field_names(kind) else _change_of_value


def _change_of_value(original: Any, copy: Any, path: str) -> str | None:
    return None if original == copy else f"its value would change @ {path}"


def _change_of_moment(original: datetime, copy: datetime, path: str) -> str | None:
    # Two moments in zones of different types are never equal in the hour that comes twice.
    if original.utcoffset() != copy.utcoffset():
        return _change_of_value(original, copy, path)
    return _change_of_value(original.replace(tzinfo=None), copy.replace(tzinfo=None), path)


def _change_of_set(original: Any, copy: Any, path: str) -> str | None:
    return _change_of_value(_exactly(original), _exactly(copy), path)


def _change_of_fields(original: Any, copy: Any, path: str) -> str | None:
    names = _field_names(_type(original))
    values_of_both = ((name, getattr(original, name), getattr(copy, name)) for name in names)
    return _first((f"{path}.{name}", *values) for name, *values in values_of_both)


def _change_of_model(original: Any, copy: Any, path: str) -> str | None:
    # Its equality also counts what its fields do not tell, such as extra members.
    return _change_of_fields(original, copy, path) or _change_of_value(original, copy, path)


def _change_of_order(original: Any, copy: Any, path: str) -> str | None:
    if len(original) > 1:
        return f"an OrderedDict would lose its order @ {path}"
    return _change_of_mapping(original, copy, path)


def _are_flat(originals: Iterable[Any], copies: Iterable[Any]) -> bool:
    """Tell, quickly, whether both have the same text and numbers, in the same order."""
    original_values, copied_values = list(originals), list(copies)
    types = list(map(type, original_values))
    return (
        _SCALARS.issuperset(types)
        and types == list(map(type, copied_values))
        and original_values == copied_values
    )


def _change_of_list(original: Any, copy: Any, path: str) -> str | None:
    if len(original) != len(copy) or _are_flat(original, copy):
        return _change_of_value(len(original), len(copy), path)
    pairs = enumerate(zip(original, copy, strict=True))
    return _first((f"{path}[{index}]", *pair) for index, pair in pairs)


def _first(pairs: Iterable[tuple[str, Any, Any]]) -> str | None:
    changes = (find_change(original, copy, path) for path, original, copy in pairs)
    return next((change for change in changes if change is not None), None)


def _change_of_mapping(original: Any, copy: Any, path: str) -> str | None:
    if _exactly(original) != _exactly(copy):
        return f"its keys would change @ {path}"
    if _are_flat(original.values(), map(copy.__getitem__, original)):
        return None
    return _first((f"{path}[{key!r}]", value, copy[key]) for key, value in original.items())


def _exactly(items: Iterable[Any]) -> set[tuple[type, Any]]:
    """Return the items with their types, as True equals 1."""
    return {(float if type(item) is int else type(item), item) for item in items}


_COMPARERS: Mapping[tuple[type, ...], Callable[[Any, Any, str], str | None]] = {
    (list, tuple, deque): _change_of_list,
    (OrderedDict,): _change_of_order,
    (Mapping,): _change_of_mapping,
    (set, frozenset): _change_of_set,
    (datetime,): _change_of_moment,
}


@cache
def _field_names(cls: Any) -> list[str]:
    """Return the names of the fields of a class of objects.

    A field that JSON does not carry, and that is no part of the object's equality, does not count.
    """
    return [field.name for field in fields_of(cls) if field.init or field.eq]


def _name(value: Any) -> str:
    return "None" if value is None else type(value).__name__


_KEY = re.compile(r"\[.*\]")
_PLAIN = frozenset({str, int, float, bool, NoneType})

_explaining = strict_converter(detailed_validation=True)


class _Codec(NamedTuple):
    """How a class becomes JSON, and back; and the fields that may change on the way."""

    unstructure: Callable[[Any], Any]
    structure: Callable[[Any, Any], Any]
    delicate: tuple[str, ...]


_codecs: dict[type[WorkItem], _Codec] = {}


def _codec(cls: type[WorkItem]) -> _Codec:
    if cls not in _codecs:
        _codecs[cls] = _made_codec(cls)
    return _codecs[cls]


def _made_codec(cls: type[WorkItem]) -> _Codec:
    if not is_object_class(cls):
        raise InvalidWork(
            f"{cls.__qualname__} has no fields",
            "decorate it with attrs.define or dataclass, or derive it from pydantic's BaseModel",
        )
    if attrs.has(cls) and dataclasses.is_dataclass(cls):
        # Each knows only its own fields: the others would be lost.
        raise InvalidWork(
            f"{cls.__qualname__} is an attrs class and a dataclass", "decorate it as its bases are"
        )
    if not _has_handler(cls):
        raise InvalidWork(
            f"{cls.__qualname__} has no perform(self, job)",
            "define it; a program that only enqueues needs the class of the workers, too",
        )
    check_keys(cls)
    try:
        structure = converter.get_structure_hook(cls)
        return _Codec(_unstructure(cls), structure, _delicate_fields(cls))
    except StructureHandlerNotFoundError as error:
        raise InvalidWork(
            f"{cls.__qualname__} has a field that JSON cannot carry, of type {error.type_!r}",
            "declare plain data, dates, times, UUIDs, Decimals, enums or classes with such fields",
        ) from None
    except Exception as error:
        remedy = (
            "import what they name at run time, not under TYPE_CHECKING, at the module's top level"
        )
        if "disambiguate" in str(error):
            remedy = "give each of these classes a field without default that no other has"
        raise InvalidWork(
            f"the annotations of {cls.__qualname__} cannot be used: {error}", remedy
        ) from None


def _has_handler(cls: Any) -> bool:
    if issubclass(cls, WorksetItem) and cls.performs_parts():
        return True
    return bool(cls.perform is not WorkItem.perform)


# What may change the values that an object is made of.
_CHANGING = ("__attrs_post_init__", "__post_init__", "model_validate_json")


def _delicate_fields(cls: Any) -> tuple[str, ...]:
    """Return the names of the fields that take more than text and numbers, or convert them."""
    is_changed = any(map(partial(hasattr, cls), _CHANGING))
    return tuple(
        field.name
        for field in fields_of(cls)
        if (is_changed or field.converter or not field.init or not _is_plain_type(field.type))
        and (field.init or field.eq)
    )


def _is_plain_type(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        # In any other union, the value's own type decides how it is written.
        among = set(get_args(kind))
        return NoneType in among and len(among) == 2 and among <= _PLAIN
    if get_origin(kind) is Literal:
        return all(type(value) in _PLAIN for value in get_args(kind))
    return kind in _PLAIN


def _unstructure(cls: Any) -> Callable[[Any], Any]:
    """Return what makes the payloads of a class."""
    if not cls.omit_defaults:
        return converter.get_unstructure_hook(cls)
    return make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True)


def encode(work: WorkItem) -> dict[str, Any]:
    """Convert a work item into its payload, and check it against the types of its fields.

    Args:
        work: An instance of an attrs subclass of `WorkItem`.

    Returns:
        A dictionary that JSON can carry.

    Raises:
        InvalidWork: When `work` is not a work item, or a value does not fit its field's type.
    """
    cls: Any = type(work)
    if not issubclass(cls, WorkItem) or not is_work_type(cls):
        raise InvalidWork(
            f"{cls.__qualname__} is not a work item",
            "pass an instance of a WorkItem subclass, or what work(...) of a task returns",
        )
    if cls.work_type.startswith("__main__."):
        raise InvalidWork(
            f"{cls.__qualname__} is defined in the main program, which no node imports",
            "define it in a module that nodes import with --app, or give it a work_type",
        )
    unstructure, structure, delicate = _codec(cls)
    try:
        payload: dict[str, Any] = unstructure(work)
        if delicate:
            payload = _as_stored(payload)
        read = structure(payload, cls)
        change = _find_change_in(delicate, work, read) if delicate else None
    except Exception as error:
        raise _misfit(cls, _reason(cls, work, error)) from None
    if change is not None:
        raise _misfit(cls, change)
    return payload


def _find_change_in(names: tuple[str, ...], work: WorkItem, read: Any) -> str | None:
    if is_model(type(work)):
        return find_change(work, read)
    for name in names:
        change = find_change(getattr(work, name), getattr(read, name), f"$.{name}")
        if change is not None:
            return change
    return None


def _misfit(cls: type[WorkItem], reason: str) -> InvalidWork:
    return InvalidWork(
        f"the fields of {cls.__qualname__} do not fit: {_veiled(cls, reason)}",
        "pass values of exactly the declared types",
    )


def _is_secret(cls: type[WorkItem]) -> bool:
    return cls.redacted or cls.encrypted


def _veiled(cls: type[WorkItem], complaint: str) -> str:
    """Return a complaint; if data are secret, without keys of mappings in its path."""
    return _KEY.sub("[...]", complaint) if _is_secret(cls) else complaint


def _as_stored(payload: Any) -> Any:
    """Return a payload as a worker will read it from the database."""
    if is_json_already(payload):
        return payload
    text = to_json(payload)
    # The database writes large numbers without an exponent.
    return json.loads(text, parse_float=_number) if "e+" in text else json.loads(text)


def _number(text: str) -> int | float:
    return int(Decimal(text)) if "e+" in text else float(text)


def _reason(cls: type[WorkItem], work: Any, error: Exception) -> str:
    """Return text that names the wrong field, without its value, which may be secret."""
    try:
        _explaining.structure(_plain(cls, work) if isinstance(work, cls) else work, cls)
    except BaseValidationError as group:
        describe = _without_values if _is_secret(cls) else _described
        complaints = transform_error(group, format_exception=describe)
        return "; ".join(_veiled(cls, complaint) for complaint in complaints)
    except InvalidWork as misfit:
        return _veiled(cls, misfit.what)
    except Exception:
        return f"expected an object with its fields, got {type(work).__name__}"
    return f"{type(error).__name__} in a field"


def _described(error: BaseException, kind: type | None) -> str:
    if isinstance(error, AttributeError) and error.name == "keys":
        # The reader of an attrs class begins with the keys of its object.
        return f"expected an object, got {type(error.obj).__name__}"
    return format_exception(error, kind)


def _without_values(error: BaseException, kind: type | None) -> str:
    """Return text about an error without the error's own text, which may quote a value."""
    if isinstance(error, KeyError):
        return "required field missing"
    if isinstance(error, ForbiddenExtraKeysError):
        return "extra fields found"
    expected = f", expected {getattr(kind, '__name__', kind)}" if kind is not None else ""
    return f"invalid value for type{expected}"


def _plain(cls: type[WorkItem], work: WorkItem) -> dict[str, Any]:
    """Convert a work item field by field, so that an error can name the field."""
    if is_model(cls):
        return _plain_model(work)
    fields = [field for field in fields_of(cls) if field.init]
    plain = {field.name: _plain_field(field, getattr(work, field.name)) for field in fields}
    return _as_stored(plain) if _codec(cls).delicate else plain


def _plain_model(model: Any) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in type(model).model_fields:
        try:
            members |= model_members(model, include={name})
        except Exception:
            raise InvalidWork(f"invalid value for type @ $.{name}") from None
    return members


def _plain_field(field: Any, value: Any) -> Any:
    try:
        plain = _explaining.unstructure(value, unstructure_as=field.type)
    except Exception:
        kind = field.type if get_args(field.type) else getattr(field.type, "__name__", field.type)
        complaint = f"invalid value for type, expected {kind} @ $.{field.name}"
        raise InvalidWork(complaint) from None
    if unstorable := find_unstorable(plain, f"$.{field.name}", is_text_free=True):
        raise InvalidWork(unstorable)
    return plain


def encode_fields(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values of some fields of a class into what its payloads have for them.

    Raises:
        InvalidWork: When a value does not fit its field, or the class cannot be encoded.
    """
    _codec(cls)
    fields = {field.name: field for field in fields_of(cls)}
    try:
        return {name: _stored_field(fields[name], value) for name, value in values.items()}
    except InvalidWork as error:
        raise _misfit(cls, error.what) from None


def _stored_field(field: Any, value: Any) -> Any:
    stored = _as_stored(_plain_field(field, value))
    try:
        change = find_change(value, converter.structure(stored, field.type), f"$.{field.name}")
    except Exception:
        change = f"invalid value for type, expected {field.type} @ $.{field.name}"
    if change is not None:
        raise InvalidWork(change)
    return stored


def decoder(cls: type[WorkItem]) -> Callable[[Any, Any], Any]:
    """Return the function(payload, cls) that makes a work item, and may raise any exception."""
    return _codec(cls).structure


def decode(cls: type[WorkItem], payload: Any) -> WorkItem:
    """Make a work item from a payload.

    Raises:
        UnreadablePayload: When the payload does not fit the class; the message names the field.
    """
    try:
        work: WorkItem = decoder(cls)(payload, cls)
    except InvalidWork:
        raise
    except Exception as error:
        raise UnreadablePayload(
            f"the payload does not fit {cls.work_type}: {_reason(cls, payload, error)}",
            "enqueue the fields that the class declares",
        ) from None
    return work
