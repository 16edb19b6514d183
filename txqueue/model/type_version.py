"""The version of a work type's fields, by which nodes tell versions of its class apart."""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from typing import Any, get_args, get_origin

import attrs

from txqueue.errors import TxqueueError, UnreadablePayload
from txqueue.model.work_item import WorkItem

__all__ = ["UNKNOWN", "NotRead", "type_version"]

UNKNOWN = "#unknown"
"""What stands after the name of a work type for a process that does not have its class."""


class NotRead(UnreadablePayload):
    """This process cannot read the payload of the job that it is to run.

    Args:
        error: What is wrong with the payload.
        version: The version of the work type that this process has.
    """

    def __init__(self, error: TxqueueError, version: str) -> None:
        super().__init__(error.what, error.remedy)
        self.version = version


def type_version(cls: type[WorkItem]) -> str:
    """Return the work type and a hash of its fields, joined by ``#``.

    Two processes have the same version of a type if its fields have the same names and types, and
    the same ones have defaults. The types include members of enums and the fields of nested attrs
    classes, but not validators. Versions whose payloads are encrypted say so: they read no others.
    """
    shape = json.dumps(_shape(cls, ()), sort_keys=True)
    mark = "encrypted-" if cls.encrypted else ""
    return f"{cls.work_type}#{mark}{hashlib.sha256(shape.encode()).hexdigest()[:12]}"


def _shape(kind: Any, within: tuple[Any, ...]) -> Any:
    """Return plain data that is the same for equal types in each process."""
    if kind in within:
        return _name(kind)
    if isinstance(kind, type) and attrs.has(kind):
        return _fields(kind, (*within, kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return sorted(repr(member.value) for member in kind)
    if parts := get_args(kind):
        return [_name(get_origin(kind)), *(_shape(part, within) for part in parts)]
    return _name(kind)


def _fields(cls: Any, within: tuple[Any, ...]) -> dict[str, Any]:
    try:
        attrs.resolve_types(cls)
    except Exception:
        # An annotation that cannot be resolved stays text; to enqueue such an item is refused.
        return {field.name: str(field.type) for field in attrs.fields(cls)}
    return {
        field.name: [field.default is attrs.NOTHING, _shape(field.type, within)]
        for field in attrs.fields(cls)
    }


def _name(kind: Any) -> str:
    if isinstance(kind, type):
        return f"{kind.__module__}.{kind.__qualname__}"
    # Members of Literal, type variables and the like; those with an address have a name.
    return getattr(kind, "__name__", None) or repr(kind)
