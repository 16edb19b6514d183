"""Converts work items to JSON and back, and refuses a value that would change on the way."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, get_args
from uuid import UUID

import attrs
from cattrs import (
    BaseValidationError,
    ForbiddenExtraKeysError,
    StructureHandlerNotFoundError,
    transform_error,
)
from cattrs.gen import make_dict_structure_fn
from cattrs.preconf.json import make_converter

from txqueue.errors import InvalidWork
from txqueue.model.work_item import WorkItem, is_work_type

__all__ = ["decode", "decoder", "encode", "encode_result", "option_json"]

_KEY = re.compile(r"\[.*\]")

_converter = make_converter(forbid_extra_keys=True, detailed_validation=False)
_explaining = make_converter(forbid_extra_keys=True)


def _strictly(kind: type, *converted: type) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is kind:
            return value
        if type(value) in converted:
            return kind(value)
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")

    return structure


def _from_text(value: Any, kind: Any) -> Any:
    if type(value) is str:
        return kind(value)
    raise TypeError(f"expected text, got {type(value).__name__}")


for _each in (_converter, _explaining):
    _each.register_structure_hook(int, _strictly(int))
    _each.register_structure_hook(str, _strictly(str))
    _each.register_structure_hook(bool, _strictly(bool))
    _each.register_structure_hook(float, _strictly(float, int))
    for _kind in (UUID, Decimal):
        _each.register_unstructure_hook(_kind, str)
        _each.register_structure_hook(_kind, _from_text)


_codecs: dict[type[WorkItem], tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}


def _is_work(work: object) -> bool:
    return isinstance(work, WorkItem) and is_work_type(type(work))


def _codec(cls: type[WorkItem]) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    if cls not in _codecs:
        _codecs[cls] = _made_codec(cls)
    return _codecs[cls]


def _made_codec(cls: type[WorkItem]) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    if not attrs.has(cls):
        raise InvalidWork(
            f"{cls.__qualname__} is not an attrs class", "decorate it with attrs.define"
        )
    try:
        structure = _quickly(cls, _converter.get_structure_hook(cls))
        return _converter.get_unstructure_hook(cls), structure
    except StructureHandlerNotFoundError as error:
        raise InvalidWork(
            f"{cls.__qualname__} has a field that JSON cannot carry, of type {error.type_!r}",
            "declare plain data, dates, UUIDs, Decimals, enums or attrs classes",
        ) from None


def _quickly(cls: Any, structure: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Look for extra fields only where their number is wrong, if the class requires all of its own.

    The converter makes a set of each payload's keys, which takes half as long as all the rest.
    """
    own = attrs.fields(cls)
    if any(field.default is not attrs.NOTHING or not field.init for field in own):
        return structure
    number = len(own)
    trusting = make_dict_structure_fn(cls, _converter, _cattrs_forbid_extra_keys=False)

    def quick(payload: Any, kind: Any) -> Any:
        return (trusting if len(payload) == number else structure)(payload, kind)

    return quick


def encode(work: WorkItem) -> dict[str, Any]:
    """Convert a work item into its payload, and check it against the types of its fields.

    Args:
        work: An instance of an attrs subclass of `WorkItem`.

    Returns:
        A dictionary that JSON can carry.

    Raises:
        InvalidWork: When `work` is not a work item, or a value does not fit its field's type.
    """
    cls = type(work)
    if not _is_work(work):
        raise InvalidWork(
            f"a {cls.__qualname__} is not a work item", "pass an instance of a WorkItem subclass"
        )
    if cls.work_type.startswith("__main__."):
        raise InvalidWork(
            f"{cls.__qualname__} is defined in the main program, which no node imports",
            "define it in a module that nodes import with --app, or give it a work_type",
        )
    unstructure, structure = _codec(cls)
    try:
        payload: dict[str, Any] = unstructure(work)
        structure(payload, cls)
    except Exception as error:
        raise InvalidWork(
            f"the fields of {cls.__qualname__} do not fit: {_reason(cls, work, error)}",
            "pass values of the declared types",
        ) from None
    return payload


def _reason(cls: type[WorkItem], work: Any, error: Exception) -> str:
    """Return text that names the wrong field, without its value, which may be secret."""
    try:
        _explaining.structure(_plain(cls, work) if isinstance(work, cls) else work, cls)
    except BaseValidationError as group:
        if cls.redacted or cls.encrypted:
            said = transform_error(group, format_exception=_without_values)
            # A path's parts may be keys of a mapping, which are data too.
            return "; ".join(_KEY.sub("[...]", each) for each in said)
        return "; ".join(transform_error(group))
    except InvalidWork as misfit:
        return misfit.what
    except Exception:
        return f"expected an object with its fields, got {type(work).__name__}"
    return f"{type(error).__name__} in a field"


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
    plain = {}
    kind: Any = cls
    for field in attrs.fields(attrs.resolve_types(kind)):
        value = getattr(work, field.name)
        try:
            plain[field.name] = _explaining.unstructure(value, unstructure_as=field.type)
        except Exception:
            wanted = field.type if get_args(field.type) else field.type.__name__
            what = f"invalid value for type, expected {wanted} @ $.{field.name}"
            raise InvalidWork(what) from None
    return plain


def decoder(cls: type[WorkItem]) -> Callable[[Any, Any], Any]:
    """Return the function(payload, cls) that makes a work item, and may raise any exception."""
    return _codec(cls)[1]


def decode(cls: type[WorkItem], payload: Any) -> WorkItem:
    """Make a work item from a payload.

    Raises:
        InvalidWork: When the payload does not fit the class; the message names the field.
    """
    try:
        work: WorkItem = decoder(cls)(payload, cls)
    except InvalidWork:
        raise
    except Exception as error:
        raise InvalidWork(
            f"the payload does not fit {cls.work_type}: {_reason(cls, payload, error)}",
            "enqueue the fields that the class declares",
        ) from None
    return work


def encode_result(value: Any) -> str:
    """Convert a handler's result into JSON text.

    Raises:
        InvalidWork: When the result does not fit JSON.
    """
    try:
        plain = _converter.unstructure(value)
        return _checked(json.dumps(plain, allow_nan=False, ensure_ascii=False))
    except Exception as error:
        raise InvalidWork(
            f"the result is not JSON: {error}", "return plain data or an attrs object"
        ) from None


def option_json(value: object) -> object:
    """Convert an option of `enqueue` for JSON: a datetime becomes ISO 8601 with an offset.

    Raises:
        InvalidWork: When a datetime is naive.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidWork(
                f"{value.isoformat()} has no time zone",
                "use datetime.now(timezone.utc) or the like",
            )
        return value.isoformat()
    return value


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _checked(text: str) -> str:
    text.encode()  # This raises for lone surrogates, which PostgreSQL cannot store either.
    if _NUL.search(text):
        raise ValueError("PostgreSQL cannot store a NUL character")
    return text
