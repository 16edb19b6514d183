"""Formats numbers, ages, untrusted text and shell commands for people; reads lengths of time and
moments as they type them.
"""

from __future__ import annotations

import json
import re
import reprlib
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

# Control characters, with which a name or a payload could control the terminal, and line breaks,
# which a name must not have.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_STEPS = ((86400.0, "d", "h", 3600.0), (3600.0, "h", "min", 60.0), (60.0, "min", "s", 1.0))
_DAY = 86400.0


def state_word(state: str) -> str:
    """Return the word that people read for a job's state."""
    return "running" if state == "assigned" else state


def _visible(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def plain(text: object) -> str:
    """Return text with its control characters made visible and harmless."""
    return _CONTROL.sub(lambda match: _visible(match[0]), str(text))


def meant(name: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest known name is meant; empty if none is near."""
    # Imported here, as few names are unknown and each command would wait for it.
    from difflib import get_close_matches

    near = get_close_matches(name, sorted(known), 1)
    return f"did you mean {near[0]}?" if near else ""


def amount(number: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 job``, ``2,000 jobs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counted_as(number: int, noun: str, singular: str, plural: str) -> str:
    """Return a number of things and what they do: ``1 job goes first``, ``2 jobs go first``."""
    return f"{counted(number, noun)} {singular if number == 1 else plural}"


def first_of(jobs: int, noun: str = "job") -> str:
    """Return how many jobs go first."""
    return counted_as(jobs, noun, "goes first", "go first")


def joined(names: Sequence[str], most: int = 5) -> str:
    """Return names as one text; of many, only the first ones."""
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def rate(number: float) -> str:
    """Return the text of a rate, with more digits for a small one."""
    return f"{number:,.0f}" if number >= 9.95 or number == 0 else f"{number:.1f}"


def duration(seconds: float) -> str:
    """Return a length of time: ``3.2 ms``, ``320 ms``, ``4.1 s``, ``2 min 5 s``, ``3 d 4 h``."""
    seconds = max(seconds, 0.0)
    if seconds == 0:
        return "0 s"
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else age(seconds)


def age(seconds: float) -> str:
    """Return a length of time to the second: ``3 s``, ``2 min``, ``3 d 4 h``."""
    count = max(int(seconds), 0)
    for size, name, smaller, part in _STEPS:
        if count >= size:
            remainder = int(count % size / part)
            return f"{count // int(size)} {name}" + (f" {remainder} {smaller}" if remainder else "")
    return f"{count} s"


def moment(when: datetime, now: datetime) -> str:
    """Return a timestamp in local time, with its distance from now."""
    try:
        local = when.astimezone()
    except (OverflowError, ValueError):
        return plain(when)
    passed = (now - when) / timedelta(seconds=1)
    is_near = abs(passed) < _DAY / 2
    clock = local.strftime("%H:%M:%S" if is_near else "%Y-%m-%d %H:%M:%S %z")
    return f"{clock} ({age(passed)} ago)" if passed >= 0 else f"{clock} (in {age(-passed)})"


def cut(text: str, most: int) -> str:
    """Return a text within a number of characters; an ellipsis stands for the rest."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def brief(value: object) -> str:
    """Return a value as Python shows it, shortened; its type, if Python refuses to show it."""
    try:
        return reprlib.repr(value)
    except Exception:
        # An int of thousands of digits, or a __repr__ that raises.
        return f"of type {type(value).__name__}"


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def length_of(text: str) -> timedelta:
    """Return the length of time that a text such as ``90s``, ``5min`` or ``2h`` says.

    Raises:
        ValueError: When it is not a length of time; the message says how to write one.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "s"
    try:
        if float(number) >= 0:
            return timedelta(seconds=float(number) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        """It is none."""
    raise ValueError(f"{text!r} is not a length of time; write 90s, 5min, 2h or 1d")


def length_text(seconds: float) -> str:
    """Return a length of time as `length_of` reads it, in the largest unit that fits."""
    for unit in ("d", "h", "min"):
        number = seconds / _UNITS[unit]
        if number >= 1 and number.is_integer():
            return f"{number:.0f}{unit}"
    return f"{round(seconds, 6):.15g}s"


def moment_of(text: str) -> datetime:
    """Return the moment of a date, or a date and time, in ISO 8601; in UTC without an offset.

    Raises:
        ValueError: When it is none; the message says how to write one.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a day or a moment, such as 2026-11-22T13:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_ahead(text: str) -> datetime:
    """Return the moment that a text means: ``now``, a length of time from now, or `moment_of`.

    Raises:
        ValueError: When it is none, or a length without a unit; the message says how to write one.
    """
    now = datetime.now(UTC)
    if text == "now":
        return now
    if text[-1:].isdecimal() and text.replace(".", "", 1).isdecimal():
        raise ValueError(f"{text!r} has no unit; write 30s, 5min or 2h")
    with suppress(ValueError, OverflowError):
        return now + length_of(text)
    try:
        return moment_of(text)
    except ValueError as error:
        raise ValueError(f"{error}, nor a length of time from now, such as 2h, nor now") from None


# Commas join names, and spaces around them do not count; a list in JSON begins with a bracket.
_JOINED: Final = re.compile(r"[\[\s].*|.*,.*|.*\s", re.DOTALL)


def word(name: str) -> str:
    """Return a name as one word; characters that are not to be shown are spelled out."""
    return shlex.quote(plain(name))


def argument(name: str) -> str:
    """Return a name as the last arguments of a command: one with a hyphen is no option."""
    return f"-- {word(name)}" if name.startswith("-") else word(name)


def queues_option(*queues: str) -> str:
    """Return the option with which a node serves queues."""
    is_joined = any(_JOINED.fullmatch(queue) or plain(queue) != queue for queue in queues)
    return f"--queues {word(json.dumps(queues) if is_joined else ','.join(queues))}"


def resume_command(kind: str, key: str) -> str:
    """Return the command that resumes a queue, a group or a tenant."""
    return f"txqueue resume {argument(key) if kind == 'queue' else f'--{kind} {word(key)}'}"


def limit_command(kind: str, key: str, limit: str) -> str:
    """Return the command that sets a limit of a queue, a group or a tenant."""
    if key.startswith("-"):
        return f"txqueue limit {limit} -- {kind} {word(key)}"
    return f"txqueue limit {kind} {word(key)} {limit}"
