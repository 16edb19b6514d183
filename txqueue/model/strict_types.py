"""Makes converters between objects and JSON that take no value for a value of another type.

A reader gets what the database returns: text, numbers, true, false, null, arrays and objects. Each
type reads one kind of them only: an array is no text, ``true`` is no 1.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import attrs
from cattrs import (
    AttributeValidationNote,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.cols import (
    is_namedtuple,
    namedtuple_structure_factory,
    namedtuple_unstructure_factory,
)
from cattrs.preconf.json import make_converter

from txqueue.model.record_types import (
    fields_of,
    is_model,
    is_object_class,
    is_typed_dict,
    unwrapped,
)
from txqueue.model.storable import to_json

_Reader = Callable[[Any, Any], Any]

_DURATION = re.compile(
    r"(?P<sign>-?)P(?!$)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?!$)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,6}))?S)?)?",
    re.ASCII,
)
_WHOLE = ("weeks", "days", "hours", "minutes", "seconds")


def strict_converter(**options: Any) -> Converter:
    """Return a converter that reads each type from the JSON that it writes for it, and no other.

    Args:
        options: Options of cattrs.
    """
    converter = make_converter(forbid_extra_keys=True, **options)
    for kind, converted in ((int, ()), (str, ()), (bool, ()), (float, (int,))):
        converter.register_structure_hook(kind, _reader_of(kind, *converted))
    for text_kind in (UUID, Decimal):
        converter.register_unstructure_hook(text_kind, str)
        converter.register_structure_hook(text_kind, _from_text)
    for moment in (date, datetime, time):
        converter.register_structure_hook(moment, _from_iso)
    converter.register_unstructure_hook(time, _time_text)
    converter.register_unstructure_hook(timedelta, _duration_text)
    converter.register_structure_hook(timedelta, _duration)
    converter.register_structure_hook(Enum, _member)
    converter.register_structure_hook_factory(_is_literal, _literal_reader)
    # cattrs before 26.2 leaves the keys of a counter as they are.
    converter.register_unstructure_hook_factory(
        _is_counter, lambda kind: converter.get_unstructure_hook(_dict_of(get_args(kind)[0]))
    )
    converter.register_unstructure_hook_func(is_model, model_members)
    converter.register_structure_hook_func(is_model, _model)
    converter.register_structure_hook_factory(
        _is_choice_of_objects, lambda kind: _chooser(get_args(kind), converter)
    )
    converter.register_unstructure_hook_factory(
        is_namedtuple, lambda kind: namedtuple_unstructure_factory(_with_types(kind), converter)
    )
    converter.register_structure_hook_factory(
        is_namedtuple, lambda kind: namedtuple_structure_factory(_with_types(kind), converter)
    )
    converter.register_unstructure_hook_factory(
        _is_typed_dict, lambda kind: converter.gen_unstructure_typeddict(_with_marks(kind))
    )
    converter.register_structure_hook_factory(
        _is_typed_dict, lambda kind: converter.gen_structure_typeddict(_with_marks(kind))
    )
    wrapped = _Wrapped()
    converter.register_structure_hook_factory(
        wrapped.is_next, lambda kind: wrapped.checked(kind, converter)
    )
    return converter


def _with_types(kind: type) -> type:
    """Return a named tuple whose annotations are types, where its module has left them as text.

    attrs does so for its classes.
    """
    with suppress(NameError):
        kind.__annotations__ = get_type_hints(kind, include_extras=True)
    return kind


def _is_typed_dict(kind: Any) -> bool:
    return is_typed_dict(get_origin(kind) or kind)


def _with_marks(kind: Any) -> Any:
    """Return a TypedDict that requires what its annotations say, also where these are text."""
    cls = get_origin(kind) or kind
    cls.__required_keys__ = frozenset(
        each.name for each in fields_of(cls) if each.default is attrs.NOTHING
    )
    return kind


def _reader_of(kind: type, *converted: type) -> _Reader:
    def read(value: Any, target: Any) -> Any:
        if type(value) is target:
            return value
        if issubclass(target, Enum):
            return _member(value, target)
        if type(value) is kind or type(value) in converted:
            return _equal_float(value, target) if converted else target(value)
        raise TypeError(f"expected {target.__name__}, got {type(value).__name__}")

    return read


def _equal_float(value: float, kind: Any) -> Any:
    """Return the float that an int stands for: the database has no exponents, so it returns 1e16 as
    an int, and a larger float as its shortest decimal with zeros.
    """
    converted = kind(value)
    if converted == value or int(Decimal(repr(float(converted)))) == value:
        return converted
    raise ValueError(f"no {kind.__name__} equals the {type(value).__name__}")


def _from_text(value: Any, kind: Any) -> Any:
    if type(value) is str:
        return kind(value)
    raise TypeError(f"expected text, got {type(value).__name__}")


def _from_iso(value: Any, kind: Any) -> Any:
    return kind.fromisoformat(value)


def _time_text(value: time) -> str:
    """Return a time of day in ISO 8601; a zone that has no offset without a date is refused."""
    if value.tzinfo is not None and value.utcoffset() is None:
        raise ValueError("a time of day needs a fixed offset, or none")
    return value.isoformat()


def _duration_text(length: timedelta) -> str:
    """Return a length of time in ISO 8601, exactly: its days and seconds, with a sign for both."""
    sign = "-" if length < timedelta(0) else ""
    total_seconds, fraction = divmod(abs(length // timedelta(microseconds=1)), 10**6)
    days, seconds = divmod(total_seconds, 86400)
    return f"{sign}P{days}DT{seconds}{f'.{fraction:06d}' if fraction else ''}S"


def _duration(value: Any, kind: Any) -> Any:
    """Read a length of time in ISO 8601; years and months have none."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError("expected a length of time in ISO 8601, such as PT1H30M")
    parts = {name: int(text) for name, text in match.groupdict().items() if text and name in _WHOLE}
    micros = int((match["fraction"] or "").ljust(6, "0"))
    length = kind(**parts, microseconds=micros)
    return -length if match["sign"] else length


def _member(value: Any, kind: Any) -> Any:
    """Return the member of an Enum with a value of exactly that type: ``true`` is no 1."""
    try:
        return _members(kind)[type(value), value]
    except (KeyError, TypeError):
        # Flags that are combined, or what the class finds by _missing_().
        member = kind(value)
    if type(member.value) is not type(value):
        raise ValueError(f"no {kind.__name__} has a {type(value).__name__} of this value")
    return member


@cache
def _members(kind: type[Enum]) -> Mapping[tuple[type, Any], Enum]:
    return _by_value(kind)


def _by_value(allowed: Iterable[Any]) -> dict[tuple[type, Any], Any]:
    """Return what is allowed by the type and value that JSON has for it."""
    members = {}
    for member in allowed:
        value = member.value if isinstance(member, Enum) else member
        if isinstance(value, str | int | float | None):
            members[type(value), value] = member
    return members


def _is_literal(kind: Any) -> bool:
    return bool(get_origin(kind) == Literal)


def _literal_reader(kind: Any) -> _Reader:
    allowed = _by_value(get_args(kind))

    def read(value: Any, _: Any) -> Any:
        try:
            return allowed[type(value), value]
        except (KeyError, TypeError):
            raise ValueError(f"expected {kind}, got a {type(value).__name__}") from None

    return read


def model_members(model: Any, include: set[str] | None = None) -> Any:
    """Return fields of a model of pydantic as its own JSON has them; all of them by default."""
    return model.model_dump(
        mode="json", by_alias=True, round_trip=True, warnings="error", include=include
    )


def _model(value: Any, kind: Any) -> Any:
    """Read a model of pydantic by its own rules, in which each type reads its own JSON only."""
    try:
        return kind.model_validate_json(to_json(value), strict=True)
    except ValueError as error:
        found: Any = getattr(error, "errors", list)()
        raise (_located(kind, found[0]) if found else ValueError()) from None


def _located(kind: Any, wrong: Mapping[str, Any]) -> Exception:
    """Return what is wrong in a model, and where, without the value that pydantic's text has."""
    location = list(wrong["loc"])
    error: Exception = ValueError()
    if wrong["type"] == "missing":
        error = KeyError(location[-1])
    elif wrong["type"] == "extra_forbidden":
        error = ForbiddenExtraKeysError("", kind, {location.pop()})
    is_root = "root" in kind.model_fields
    for depth, part in reversed(tuple(enumerate(location))):
        # Names below the first one may be keys of mappings, which are data.
        is_name = depth == 0 and not is_root
        note = AttributeValidationNote if is_name else IterableValidationNote
        error.__notes__ = [note("", part, None)]
        error = (ClassValidationError if is_name else IterableValidationError)("", [error], kind)
    return error


def _is_choice_of_objects(kind: Any) -> bool:
    """Tell whether a union has members that cattrs does not tell apart by their fields."""
    among = set(get_args(kind)) - {NoneType} if get_origin(kind) in (Union, UnionType) else set()
    return len(among) > 1 and any(is_model(each) or is_typed_dict(each) for each in among)


def _chooser(among: Iterable[Any], converter: Converter) -> _Reader:
    """Return a reader that chooses the member which would write the value, or else reads it."""

    def read(value: Any, _: Any) -> Any:
        if value is None and NoneType in among:
            return None
        fitting = list(_readings(value, among, converter))
        if not fitting:
            raise ValueError
        return next((each for each, written in fitting if written == value), fitting[0][0])

    return read


def _readings(value: Any, among: Iterable[Any], converter: Converter) -> Iterator[tuple[Any, Any]]:
    for member in among:
        with suppress(Exception):
            read = converter.structure(value, member)
            yield read, converter.unstructure(read, unstructure_as=member)


class _Wrapped(threading.local):
    """Adds checks to the converter's own readers of collections."""

    own: Any = None

    def is_next(self, kind: Any) -> bool:
        """Tell whether the kind is a collection, except while its own reader is looked up."""
        if self.own is not None and self.own is kind:
            self.own = None
            return False
        return collection_form(kind) is not None

    def checked(self, kind: Any, converter: Converter) -> _Reader:
        """Return a reader of arrays, or of objects, that refuses all else."""
        self.own = own = _with_tuple(kind)
        read_own = converter.get_structure_hook(own, cache_result=False)
        if collection_form(kind) is list:
            return _array_reader(own, read_own)
        parameters = get_args(kind)
        read = _object_reader(kind, read_own, _key_reader(parameters[0]) if parameters else None)
        # The converter has noted its own reader of objects, which would be used from now on.
        converter.register_structure_hook_func(lambda other: bool(other == kind), read)
        return read


def collection_form(kind: Any) -> type | None:
    """Return what JSON has for a collection: list or dict; None for any other type."""
    cls = get_origin(kind) or kind
    if not isinstance(cls, type) or not issubclass(cls, Collection):
        return None
    if issubclass(cls, str | bytes | bytearray | Enum) or is_object_class(cls):
        return None
    return dict if issubclass(cls, Mapping) else list


def _is_counter(kind: Any) -> bool:
    return bool(get_origin(kind) == Counter)


def _dict_of(key: Any) -> Any:
    return dict[key, int]


def _with_tuple(kind: Any) -> Any:
    """Return what a ``Sequence`` is read as: a tuple; cattrs before 25.2 would read a list."""
    if (get_origin(kind) or kind) is not Sequence:
        return kind
    item: Any = (*get_args(kind), Any)[0]
    return tuple[item, ...]


def _array_reader(kind: Any, read_own: _Reader) -> _Reader:
    def read(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise TypeError(f"expected a list, got {type(value).__name__}")
        return read_own(value, kind)

    return read


def _object_reader(kind: Any, read_own: _Reader, key: Callable[[str], Any] | None) -> _Reader:
    def read(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected a dict, got {type(value).__name__}")
        if key is not None:
            value = {key(name): member for name, member in value.items()}
        return read_own(value, kind)

    return read


def _key_reader(kind: Any) -> Callable[[str], Any] | None:
    """Return the function that makes a key's value from the text that JSON has for it.

    None for keys that are text, or are read from it.
    """
    kind = unwrapped(kind)
    if _is_literal(kind):
        return _choice_reader(_by_value(get_args(kind)))
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Enum):
        return _choice_reader(_by_value(kind))
    if kind is bool:
        return _choice_reader(_by_value((True, False)))
    return _number_reader(int if issubclass(kind, int) else float, kind)


def _choice_reader(allowed: Mapping[tuple[type, Any], Any]) -> Callable[[str], Any]:
    by_text = {_key_text(value): value for _, value in allowed}
    return lambda text: by_text.get(text, text)


def _key_text(value: Any) -> str:
    """Return the text that JSON has for a key."""
    if isinstance(value, str):
        return str.__str__(value)
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def _number_reader(form: type, kind: type) -> Callable[[str], Any] | None:
    if not issubclass(kind, int | float):
        return None

    def read(text: str) -> Any:
        number = form(text)
        if repr(number) != text:
            raise ValueError(f"expected a {form.__name__} as key")
        return number

    return read


converter: Final = strict_converter(detailed_validation=False)
"""The converter of payloads."""
