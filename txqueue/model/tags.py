"""Tags: a few texts by name that people give to a job, to find it again; dispatch ignores them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from txqueue.errors import InvalidWork

__all__ = ["TAG_NAME", "checked_tags", "tags_of"]

MOST_TAGS, LONGEST_VALUE = 10, 200
TAG_NAME = re.compile(r"[A-Za-z0-9_.-]{1,50}")
"""What the name of a tag looks like."""
# A control character, or half of a surrogate pair, which PostgreSQL cannot store.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_REMEDY = "give a mapping of names to texts, such as {'campaign': 'spring'}"


def checked_tags(tags: object) -> dict[str, str]:
    """Return tags as a dictionary, after a check.

    Raises:
        InvalidWork: When they are too many, or a name or a value is not valid.
    """
    if not isinstance(tags, Mapping):
        raise InvalidWork(f"tags are no mapping but a {type(tags).__name__}", _REMEDY)
    if len(tags) > MOST_TAGS:
        raise InvalidWork(f"{len(tags)} tags are too many", f"give at most {MOST_TAGS}")
    for name, value in tags.items():
        _check_name(name)
        _check_value(name, value)
    return dict(tags)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not TAG_NAME.fullmatch(name):
        raise InvalidWork(
            f"{str(name)[:60]!r} is not the name of a tag",
            "use 1 to 50 of the letters A to Z and a to z, digits, _ . and -",
        )


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidWork(f"the tag {name} is no text but a {type(value).__name__}", _REMEDY)
    if len(value) > LONGEST_VALUE:
        raise InvalidWork(
            f"the tag {name} has {len(value)} characters, more than {LONGEST_VALUE}",
            "give a shorter text, and put data into the payload",
        )
    if _UNFIT.search(value):
        raise InvalidWork(
            f"the tag {name} has a control character", "give a line of text without them"
        )


def tags_of(options: object) -> Mapping[str, str]:
    """Return the tags in a job's options by name, sorted; none if there are no valid ones."""
    tags = options.get("tags") if isinstance(options, Mapping) else None
    pairs = tags if isinstance(tags, dict) else {}
    texts = {name: value for name, value in sorted(pairs.items()) if type(value) is str}
    return MappingProxyType(texts)
