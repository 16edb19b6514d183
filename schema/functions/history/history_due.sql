-- The days of history that may be archived and dropped: those before a day, and not later than yesterday;
-- null for those past retention. Names are compared as texts, as the planner may evaluate this for other
-- tables.
create or replace function txqueue.history_due(before date default null)
returns table (leaf text, state text, day date)
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select child.relname::text, right(parent.relname, -4), to_date(right(child.relname, 8), 'YYYYMMDD')
      from pg_inherits
      join pg_class as child on child.oid = inhrelid
      join pg_class as parent on parent.oid = inhparent
     where inhparent in ('job_done'::regclass, 'job_cancelled'::regclass) and child.relname ~ '_[0-9]{8}$'
       and right(child.relname, 8) < to_char(least(
               coalesce(before, (clock_timestamp() at time zone 'UTC' - (select history_kept from setting))::date - 1),
               (clock_timestamp() at time zone 'UTC')::date), 'YYYYMMDD')
     order by right(child.relname, 8), child.relname
$$;
