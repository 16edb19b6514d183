-- When a schedule is due next that may be due until a moment and has so many runs left, either null for no end: infinity
-- if it has come to its end.
create or replace function txqueue.next_due_within(its_until timestamptz, runs_left bigint, its_next timestamptz) returns timestamptz
language sql immutable
set search_path = txqueue, pg_temp
as $$
    select case when runs_left <= 0 or its_next > its_until then 'infinity' else its_next end
$$;
