-- Moves on to the next lane that holds nothing ready, not even dead rows, once the current one has some
-- size; stays where it is while there is no such lane. Jobs may be enqueued already assigned: if only
-- the assigned part of the lane has grown, the next one's must be small. Returns the lane that is
-- current then.
create or replace function @schema@.next_lane(least_bytes bigint) returns smallint
language plpgsql volatile
set search_path = @schema@, pg_temp
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
        select lane into free from lanes() where lane <> current
         group by lane
        having sum(bytes) filter (where kind = 'ready') = 0
           and (is_long or sum(bytes) filter (where kind = 'assigned') < least_bytes)
         order by (lane - current + 8) % 8 limit 1;
    end if;
    if free is not null then
        perform setval('lane', free);
        current := free;
    end if;
    return current;
end $$;
