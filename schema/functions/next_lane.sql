-- Moves on to the next lane that holds nothing, not even dead rows, once the current one has some
-- size; stays where it is while there is no such lane. Returns the lane that is current then.
create or replace function @schema@.next_lane(least_bytes bigint) returns smallint
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
declare
    current smallint := current_lane();
    free    smallint;
begin
    select lane into free from lanes()
     where kind = 'ready' and bytes = 0 and lane <> current order by (lane - current + 8) % 8 limit 1;
    if free is not null and (select bytes >= least_bytes from lanes() where kind = 'ready' and lane = current) then
        perform setval('lane', free);
        current := free;
    end if;
    return current;
end $$;
