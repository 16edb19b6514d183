-- The place at which the last pages of a day's partition begin: (0,0) if it has no more than the given number.
create or replace function txqueue.last_pages(parent text, moment timestamptz, most integer) returns tid
language sql stable
set search_path = txqueue, pg_temp
as $$
    select format('(%s,0)', greatest(0, coalesce(pg_relation_size(to_regclass(
               format('txqueue.%I', parent || '_' || to_char(moment at time zone 'UTC', 'YYYYMMDD')))), 0)
               / current_setting('block_size')::integer - most))::tid
$$;
