"""What a filter may have meant that no job matches: the names that exist, the nearest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from txqueue.model.humanize import amount, cut

__all__ = ["unknown_name"]

_NAMED: Final = 5
_LONGEST: Final = 60


def unknown_name(kind: str, name: str, known: Sequence[str], *, is_all: bool) -> str | None:
    """Return the message about a name that does not exist; None for one that does.

    Args:
        kind: What it names: ``queue, work_type, group, tenant`` or ``node``.
        name: The name.
        known: The names that exist.
        is_all: Whether those are all of them; some that jobs had once may be missing.
    """
    if name in known:
        return None
    noun = kind.replace("_", " ")
    text = f"No live job, node or limit has the {noun} {cut(name, _LONGEST)}"
    if kind == "node":
        text = f"No node has the name {cut(name, _LONGEST)}"
    if not known:
        return f"{text}; there is no {noun}."
    first = ", ".join(cut(each, _LONGEST) for each in _nearest(name, known)[:_NAMED])
    rest = len(known) - _NAMED
    number = f" and {'' if is_all else 'at least '}{amount(rest)} more" if rest > 0 else ""
    return f"{text}; there {'is' if len(known) == 1 else 'are'} {first}{number}."


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    # Imported here, as few filters name what does not exist.
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=name)

    def distance(each: str) -> float:
        matcher.set_seq1(each)
        return -matcher.ratio()

    return sorted(known, key=distance)
