"""The calls of stored functions with many arguments, with a place for the schema's name."""

from __future__ import annotations

from typing import Final

__all__ = [
    "COMPLETE",
    "NEXT_JOB",
    "OPEN_TRANSACTIONS",
    "PASS_ON",
    "REGISTER_NODE",
    "RELEASE",
    "SETTLE",
    "STARTED",
]

REGISTER_NODE: Final = """
    select node_id, incarnation from {schema}.register_node(
        its_name => %s, its_hostname => %s, its_pid => %s, its_port => %s, its_lease => %s,
        its_capacity => %s, its_queues => %s::text[], its_work_types => %s, its_version => %s,
        its_address => %s, reserved => %s, its_former => %s, former_died => %s)"""
# A snapshot lists no transaction that has begun since the last one ended; age() tells how far their
# numbers go, without taking a number.
OPEN_TRANSACTIONS: Final = "pg_current_snapshot() || ':' || age('3'::xid)"
# The text of a frequent statement is the same at each call, so that it is prepared.
NEXT_JOB: Final = f"""
    select lane, assignment, jobs, weight, chunk, alone, due_in, seen_at, last_tenant, reached,
           reached_job, searched, passed, passed_job, left_job, {OPEN_TRANSACTIONS}
      from {{schema}}.next_job(
        its_node => %s, its_incarnation => %s, queues => %s::text[], work_types => %s::text[],
        free_weight => %s, largest => %s, capacity => %s, chunk_jobs => %s, workers => %s,
        since => %s, take_suspects => %s, from_rank => %s, from_job => %s, after_tenant => %s,
        its_load => %s, ahead => %s, turn_length => %s)"""
COMPLETE: Final = """
    select total, freed, freed_rank, freed_job from {schema}.complete(
        its_incarnation => %s, lanes => %s::smallint[], assignments => %s::bigint[],
        ids => %s::text[], results => %s::text[])"""
SETTLE: Final = """
    select cardinality(settled), freed, freed_rank, freed_job, array_to_string(settled, ',')
      from {schema}.settle(%s, %s)"""
STARTED: Final = """
    select {schema}.started(
        its_incarnation => %s, assignments => %s::bigint[], ids => %s::bigint[],
        seconds => %s::double precision[], progress => %s::text[])"""
RELEASE: Final = """
    select {schema}.release(
        its_incarnation => %s, assignments => %s::bigint[], died => %s, ids => %s::bigint[])"""
PASS_ON: Final = """
    select assignment, jobs, weight, ids_passed from {schema}.pass_on(
        its_incarnation => %s, assignments => %s::bigint[], ids => %s::bigint[],
        to_incarnation => %s, parts => %s)"""
