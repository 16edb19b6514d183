-- The lanes besides the current one whose ready tables are nearly empty, even of dead rows.
create or replace function txqueue.free_lanes(current smallint, least_bytes bigint)
returns table (lane smallint, assigned_bytes bigint)
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select each.lane, sum(bytes) filter (where kind = 'assigned')
      from lanes() as each where each.lane <> current
     group by each.lane
    having sum(bytes) filter (where kind = 'ready') < greatest(1, least_bytes / 8)
$$;
