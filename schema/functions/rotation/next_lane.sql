-- Moves on to the next free lane once the current one has a minimal size, if there is a free one. Jobs may be
-- enqueued as assigned: if only the assigned table of the lane has grown, that of the next lane must be
-- small. Returns the current lane.
create or replace function txqueue.next_lane(least_bytes bigint) returns smallint
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    current  smallint := current_lane();
    is_long  boolean;
    is_used  boolean;
    free     smallint;
begin
    select bool_or(bytes >= least_bytes) filter (where kind = 'ready'), bool_or(bytes >= least_bytes)
      into is_long, is_used from lanes() where lane = current;
    if is_used then
        select each.lane into free from free_lanes(current, least_bytes) as each
         where is_long or assigned_bytes < least_bytes
         order by (each.lane - current + 8) % 8 limit 1;
    end if;
    if free is not null then
        perform setval('lane', free);
        current := free;
    end if;
    return current;
end $$;
