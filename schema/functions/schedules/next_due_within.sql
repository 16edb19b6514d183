-- When a schedule is due next, given its last moment and its remaining runs (null for no limit); infinity if
-- it has ended.
create or replace function txqueue.next_due_within(its_until timestamptz, runs_left bigint, its_next timestamptz) returns timestamptz
language sql immutable
set search_path = txqueue, pg_temp
as $$
    select case when runs_left <= 0 or its_next > its_until then 'infinity' else its_next end
$$;
