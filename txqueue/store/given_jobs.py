"""The calls that claim and end given jobs one by one, over any connection, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from txqueue.model.assignment import SettledJob
from txqueue.store.enqueueing.portable_calls import ParamStyle, Statement, text_statement
from txqueue.store.node.outcomes import outcomes_text

__all__ = ["IDLE_LIMIT", "SET_IDLE_LIMIT", "GivenJobs"]

IDLE_LIMIT: Final = "select current_setting('idle_in_transaction_session_timeout')"
SET_IDLE_LIMIT: Final = "select set_config('idle_in_transaction_session_timeout', %s, true)"

# Each part needs a value of the one before: only the registration has the limit, as an open
# transaction that has published the same types holds them.
_REGISTER: Final = """
    select json_build_array(node_id, incarnation)::text
      from (select current_setting('lock_timeout'), set_config('lock_timeout', '10s', true))
        as bound (former, its_own), {schema}.register_node(
        its_name => %s, its_hostname => left(its_own, 0), its_pid => pg_backend_pid(),
        its_port => null, its_lease => 600, its_capacity => 1, its_queues => '{}',
        its_work_types => %s::jsonb, its_version => '', its_address => null),
        set_config('lock_timeout', former, node_id > 0)"""
_CLAIM: Final = """
    select {schema}.claim_given(
        its_node => %s::integer, its_incarnation => %s::integer,
        work_types => array(select jsonb_array_elements_text(%s::jsonb)), given => %s::bigint[],
        since => %s::bigint, is_own => %s::boolean, moment => %s::timestamptz)::text"""
_COMPLETE: Final = """
    select total::text from {schema}.complete(
        its_incarnation => %s::integer, lanes => array[%s::smallint],
        assignments => array[%s::bigint], ids => array[%s], results => array[nullif(%s, '')])"""
_SETTLE: Final = "select cardinality(settled)::text from {schema}.settle(%s::integer, %s::jsonb)"
_LEAVE: Final = "select {schema}.leave(%s::integer, 'stopped')::text"
_NAME_ENDING: Final = "select set_config('txqueue.ending_job', %s, true)"
_IN_FUTURE: Final = """
    select (clock_timestamp() + %s::double precision * interval '1 second')::text"""


class GivenJobs:
    """The statements of one caller, each with one text as its value.

    Args:
        schema: The name of the schema.
        style: How the driver spells parameters.
    """

    def __init__(self, schema: str, style: ParamStyle) -> None:
        self._statement = partial(_statement, schema, style)

    def register(self, name: str, work_types: Sequence[Mapping[str, Any]]) -> Statement:
        """Register a node; the value is a JSON array of its two numbers."""
        return self._statement(_REGISTER, name, json.dumps(work_types))

    def moment(self, seconds: float) -> Statement:
        """Return the moment so many seconds from now, by the database's clock."""
        return self._statement(_IN_FUTURE, repr(seconds))

    def claim(
        self,
        node: tuple[int, int],
        work_types: Sequence[str],
        *,
        given: Iterable[int],
        since: int,
        is_own: bool,
        moment: str,
    ) -> Statement:
        """Claim one job; see ``claim_given.sql``."""
        types, ids = json.dumps(work_types), f"{{{','.join(map(str, given))}}}"
        return self._statement(_CLAIM, *map(str, node), types, ids, str(since), str(is_own), moment)

    def complete(
        self, incarnation: int, lane: int, assignment: int, job_id: int, results: str
    ) -> Statement:
        """Complete a claimed job, with a JSON object of results or an empty text; count it."""
        numbers = map(str, (incarnation, lane, assignment))
        return self._statement(_COMPLETE, *numbers, f"{{{job_id}}}", results)

    def settle(self, incarnation: int, outcomes: Iterable[SettledJob]) -> Statement:
        """Write other outcomes; count them."""
        return self._statement(_SETTLE, str(incarnation), outcomes_text(outcomes))

    def leave(self, incarnation: int) -> Statement:
        """Stop the node; the jobs that it still has return to the queue."""
        return self._statement(_LEAVE, str(incarnation))

    def name_ending_job(self, job_id: int | None) -> Statement:
        """Name the job that ends with the transaction: its unique key is free for follow-ups."""
        return self._statement(_NAME_ENDING, "" if job_id is None else str(job_id))


def _statement(schema: str, style: ParamStyle, sql: str, *texts: str) -> Statement:
    return text_statement(sql, schema, style, *texts)
