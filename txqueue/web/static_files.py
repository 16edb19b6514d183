"""The files that pages load: styles and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Final

from attrs import field, frozen

__all__ = ["StaticFile", "read_static"]

_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@frozen
class StaticFile:
    """A file.

    Attributes:
        body: Its content.
        kind: Its media type.
        version: Identifies the content.
    """

    body: bytes = field(repr=False)
    kind: str
    version: str


def read_static() -> Mapping[str, StaticFile]:
    """Read all files once, so that no path of a request ever leads to the file system."""
    found = {}
    for each in (files("txqueue.web") / "static").iterdir():
        kind = _KINDS.get(each.name[each.name.rfind(".") :])
        if kind is not None:
            body = each.read_bytes()
            found[each.name] = StaticFile(body, kind, sha256(body).hexdigest()[:12])
    return found
