-- The rank, a moment by which jobs are ordered, smaller first: when a job is due, minus its priority; or, if
-- smaller, the rank of a job of the highest priority that is due at not_after. Without settings of its own,
-- so that it is inlined.
create or replace function txqueue.compute_rank(
    not_before timestamptz, not_after timestamptz, priority integer, aging interval) returns timestamptz
language sql stable parallel safe
as $$ select least(not_before - priority * aging, not_after - 9 * aging) $$;
