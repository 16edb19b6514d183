"""Writes commands that work as they are in a shell, with any name that a client may have given."""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

from txqueue.model.humanize import plain

__all__ = ["argument", "limit_command", "queues_option", "resume_command", "word"]

_ESCAPED: Final = re.compile(r"[\\'\x00-\x1f\x7f]")
_INVISIBLE: Final = re.compile(r"[\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Commas join names, and spaces around them do not count; a list in JSON begins with a bracket.
_JOINED: Final = re.compile(r"[\[\s].*|.*,.*|.*\s", re.DOTALL)


def word(name: str) -> str:
    """Return a name as one word: in ``$'...'`` if it has characters that are not to be shown."""
    if plain(name) == name:
        return shlex.quote(name)
    octal = _ESCAPED.sub(lambda match: f"\\{ord(match[0]):03o}", name)
    return "$'" + _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", octal) + "'"


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
