"""Commands for operators without a node: carried out in the database, with the role's rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, frozen

from txqueue.admin.client import Link
from txqueue.errors import AdminRefused, DatabaseUnavailable, TxqueueError
from txqueue.node.operators import DatabaseHandlers, FindArchived
from txqueue.store.inquiries.reader import Session
from txqueue.wire.admin_commands import checked_arguments


@frozen
class _Statements:
    """Runs statements on a connection that blocks, in a trial within its open transaction."""

    _session: Session
    _is_trial: bool

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._session.rows(sql, parameters)

    async def query_dicts(
        self, sql: str, parameters: Sequence[object] = (), before: str = ""
    ) -> list[dict[str, Any]]:
        """Run a statement that reads, and return its rows as dictionaries."""
        if not self._is_trial:
            return self._session.dicts(before + sql, parameters)
        # It would leave the transaction read-only.
        self._session.rows("savepoint reading")
        rows = self._session.dicts(before + sql, parameters)
        self._session.rows("rollback to savepoint reading")
        return rows


@define(eq=False, slots=False)
class SessionLink(Link):
    """Carries out commands in the database, as a node does; its coroutines never wait.

    Args:
        session: The connection.
        who: The operator.
        find_archived: Reads archived jobs.
        is_trial: Whether each command is rolled back once it has answered.
    """

    _session: Session
    _who: str
    _find_archived: FindArchived
    _is_trial: bool = False

    def __attrs_post_init__(self) -> None:
        statements = _Statements(self._session, self._is_trial)
        handlers = DatabaseHandlers(statements, self._session.schema, self._find_archived)
        self._functions = handlers.functions()

    async def ask(self, command: type[Any], **arguments: Any) -> dict[str, Any]:
        """Carry out a command; a refusal is the error that a node would answer with."""
        given = checked_arguments(command, arguments)
        if self._is_trial:
            self._session.rows("begin")
        try:
            return dict(await self._functions[command](self._who, **given))
        except (AdminRefused, DatabaseUnavailable):
            raise
        except TxqueueError as error:
            raise AdminRefused(error.what, error.remedy) from None
        finally:
            if self._is_trial:
                self._session.rows("rollback")
