"""The calls for tests that find jobs, claim and end given jobs, over any connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from attrs import frozen

from txqueue.model.assignment import SettledJob
from txqueue.model.job import COLUMNS, JSON_COLUMNS, Job, State
from txqueue.store.enqueueing.calls import ParamStyle, Statement
from txqueue.store.enqueueing.portable_calls import text_statement
from txqueue.store.node.outcomes import outcomes_text

LIVE: Final = (State.WAITING, State.READY, State.ASSIGNED)
"""The states of jobs that have not ended."""

TIMES: Final = frozenset(
    {
        "rank",
        "not_before",
        "not_after",
        "enqueued_at",
        "assigned_at",
        "started_at",
        "finished_at",
    }
)
"""The columns of a job that are moments."""

_COLUMNS: Final = ", ".join(f'job."{name}"{"::text" * (name in JSON_COLUMNS)}' for name in COLUMNS)
_FIND: Final = f"""
    select coalesce(json_agg(found order by found.job_id), '[]')::text
      from (select {_COLUMNS}, (job.options -> 'tags')::text as tags
              from {{schema}}.job as job, (select %s::jsonb as wanted) as search
             where job.state in (STATES) and job.job_id > (wanted ->> 'since')::bigint
               and (wanted -> 'work_type' in ('null', to_jsonb(job.work_type)))
               and (wanted -> 'is_own' = 'false' or job.enqueued_at = now())) as found"""
_LAST: Final = "select coalesce(pg_sequence_last_value('{schema}.job_id'), 0)::text"


@frozen
class JobSearch:
    """Which jobs to find: those that have all of this.

    Attributes:
        work_type: The work type; None for any.
        states: The states.
        since: Only jobs with larger numbers.
        is_own: Whether only jobs that the connection's transaction has enqueued.
    """

    work_type: str | None = None
    states: Iterable[State] = LIVE
    since: int = 0
    is_own: bool = False

    def as_json(self) -> str:
        """Return the search as the statement takes it."""
        names = ("work_type", "since", "is_own")
        return json.dumps({name: getattr(self, name) for name in names})


def find_jobs(search: JobSearch, schema: str, style: ParamStyle) -> Statement:
    """Return the statement that finds jobs; its value is a text for `found_jobs`."""
    # As text: the planner reads only the partitions of these states.
    states = ", ".join(f"'{State(state).value}'" for state in search.states)
    return text_statement(_FIND.replace("STATES", states), schema, style, search.as_json())


def last_number(schema: str, style: ParamStyle) -> Statement:
    """Return the statement for the largest number that a job has."""
    return text_statement(_LAST, schema, style)


def found_jobs(text: str) -> list[tuple[Job, Mapping[str, str]]]:
    """Return the jobs that the statement of `find_jobs` has found, with their tags."""
    return [(Job.from_row(_row(row)), json.loads(row["tags"] or "{}")) for row in json.loads(text)]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **{name: _moment(row[name]) for name in TIMES}}


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    if text in ("infinity", "-infinity"):
        limit = datetime.min if text.startswith("-") else datetime.max
        return limit.replace(tzinfo=UTC)
    return datetime.fromisoformat(text)


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
_SETTLE: Final = "select cardinality(settled)::text from {schema}.settle(%s::integer, %s::jsonb)"
_NOTE_LATE: Final = """
    select {schema}.note_late_result(%s::integer, %s::bigint, %s::bigint, %s::jsonb)::text"""
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
        """Claim one job; see ``claim_given()`` in SQL."""
        types, ids = json.dumps(work_types), f"{{{','.join(map(str, given))}}}"
        return self._statement(_CLAIM, *map(str, node), types, ids, str(since), str(is_own), moment)

    def settle(self, incarnation: int, outcomes: Iterable[SettledJob]) -> Statement:
        """Write outcomes; count them."""
        return self._statement(_SETTLE, str(incarnation), outcomes_text(outcomes))

    def note_late_result(
        self, incarnation: int, assignment: int, job_id: int, result: str
    ) -> Statement:
        """Store what a handler returned after its own transaction had completed the job."""
        return self._statement(_NOTE_LATE, *map(str, (incarnation, assignment, job_id)), result)

    def leave(self, incarnation: int) -> Statement:
        """Stop the node; the jobs that it still has return to the queue."""
        return self._statement(_LEAVE, str(incarnation))

    def name_ending_job(self, job_id: int | None) -> Statement:
        """Name the job that ends with the transaction: its unique key is free for follow-ups."""
        return self._statement(_NAME_ENDING, "" if job_id is None else str(job_id))


def _statement(schema: str, style: ParamStyle, sql: str, *texts: str) -> Statement:
    return text_statement(sql, schema, style, *texts)
