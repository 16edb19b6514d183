-- The tables of ready and assigned jobs, and their sizes.
create or replace function txqueue.lanes() returns table (leaf text, kind text, lane smallint, bytes bigint)
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select format('job_%s_%s', kind, lane), kind, lane::smallint, pg_relation_size(format('job_%s_%s', kind, lane)::regclass)
      from unnest(array['ready', 'assigned']) as kind, generate_series(0, 7) as lane
$$;
