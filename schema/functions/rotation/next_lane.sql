-- Moves on to the next free lane once the current one has some size; stays where it is while none is. Jobs
-- may be enqueued already assigned: if only the assigned part of the lane has grown, the next one's must be
-- small. Returns the lane that is current then.
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
