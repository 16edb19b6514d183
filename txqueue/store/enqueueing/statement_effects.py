"""Recognizes statements of an application that may act beyond their own transaction."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["copies", "may_change_session", "may_end_transaction"]

# An application runs few statements, with varying parameters: of so many, and so long ones, what
# they may do is remembered.
_MOST, _LONGEST = 256, 2000
# The begin of a statement in a text that may have several, after comments.
_BEGIN: Final = r"(?:\A|;)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_ENDS: Final = re.compile(
    _BEGIN
    + r"(?:(?:commit|end|abort|prepare\s+transaction)\b"
    + r"|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b))",
    re.IGNORECASE | re.DOTALL,
)
_COPIES: Final = re.compile(
    _BEGIN + r"copy\b.*\b(?:from\s+stdin|to\s+stdout)\b", re.IGNORECASE | re.DOTALL
)
_CHANGES: Final = re.compile(
    _BEGIN
    + r"(?:set\s+(?!local\b|transaction\b|constraints\b)|(?:reset|discard|listen|load|declare)\b"
    + r"|prepare\s+(?!transaction\b)|create\s+temp(?!.*\bon\s+commit\s+drop\b))"
    + r"|\bset_config\s*\((?!.*,\s*true\s*\))|\bpg_(?:try_)?advisory_lock",
    re.IGNORECASE | re.DOTALL,
)


def may_end_transaction(sql: object) -> bool:
    """Tell whether a text may contain a statement that ends the transaction.

    Args:
        sql: The text, or what else psycopg2 accepts.

    Returns:
        True also for some texts that do not, such as one with ``; commit`` inside a string.
    """
    return _has(_ENDS, _text(sql))


def copies(sql: object) -> bool:
    """Tell whether a text may contain a COPY through the connection.

    Args:
        sql: The text, or what else psycopg2 accepts.
    """
    return _has(_COPIES, _text(sql))


def may_change_session(sql: object) -> bool:
    """Tell whether a text may change the session beyond its transaction.

    That is a setting, a temporary table, a prepared statement, a cursor or an advisory lock.

    Args:
        sql: The text, or what else psycopg2 accepts.

    Returns:
        True also for some texts that do not; false for a function of the application that does.
    """
    return _has(_CHANGES, _text(sql))


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return (_has_often if len(text) <= _LONGEST else _searched)(pattern, text)


def _searched(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


_has_often = lru_cache(3 * _MOST)(_searched)


def _text(sql: object) -> str:
    # The parts of a psycopg2.sql object are quoted strings in its repr().
    return sql if isinstance(sql, str) else re.sub("['\"]", ";", repr(sql))
