"""Prepared statements of a connection: the server parses and plans frequent statements once."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["OFTEN", "Prepared", "name_of"]

OFTEN = 5
"""The use at which a statement is prepared, as psycopg 3's ``prepare_threshold``."""


class Prepared:
    """Counts the uses of one connection's frequent statements, and lists the prepared ones."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._executions: dict[str, str] = {}

    def execution(self, sql: str) -> str | None:
        """Return the SQL that executes a prepared statement; None if it is not prepared."""
        return self._executions.get(sql)

    def is_due(self, sql: str) -> bool:
        """Count the use of a statement; return whether to prepare it first."""
        self._sent[sql] = self._sent.get(sql, 0) + 1
        return self._sent[sql] >= OFTEN

    def preparation(self, sql: str) -> str:
        """Return the SQL that prepares a statement."""
        first, *parts = sql.split("%s")
        numbered = "".join(f"${number}{part}" for number, part in enumerate(parts, 1))
        return f"prepare {name_of(sql)} as {first}{numbered}"

    def was_prepared(self, sql: str) -> str:
        """Note that a statement is prepared, and return the SQL that executes it."""
        marks = ", ".join(["%s"] * sql.count("%s"))
        self._executions[sql] = f"execute {name_of(sql)}" + (f" ({marks})" if marks else "")
        return self._executions[sql]


def name_of(sql: str) -> str:
    """Return the name of a statement, which is the same in every session."""
    return f"txqueue_{blake2b(sql.encode(), digest_size=8).hexdigest()}"
