"""Statements that a connection sends again and again: the server parses and plans each once."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["OFTEN", "Prepared", "name_of"]

OFTEN = 5
"""A statement is prepared before it is sent so many times: psycopg 3's ``prepare_threshold``."""


class Prepared:
    """What one connection has sent often, and under which names the server knows it."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._executions: dict[str, str] = {}

    def execution(self, sql: str) -> str | None:
        """Return what executes a statement that was prepared; None if it was not."""
        return self._executions.get(sql)

    def is_due(self, sql: str) -> bool:
        """Note that a statement is about to be sent; tells whether to prepare it first."""
        self._sent[sql] = self._sent.get(sql, 0) + 1
        return self._sent[sql] >= OFTEN

    def preparation(self, sql: str) -> str:
        """Return what prepares a statement."""
        first, *others = sql.split("%s")
        numbered = "".join(f"${number}{part}" for number, part in enumerate(others, 1))
        return f"prepare {name_of(sql)} as {first}{numbered}"

    def was_prepared(self, sql: str) -> str:
        """Note that it was, and return what executes it."""
        marks = ", ".join(["%s"] * sql.count("%s"))
        self._executions[sql] = f"execute {name_of(sql)}" + (f" ({marks})" if marks else "")
        return self._executions[sql]


def name_of(sql: str) -> str:
    """Name a statement: in whatever session the name is known, it means this one."""
    return f"txqueue_{blake2b(sql.encode(), digest_size=8).hexdigest()}"
