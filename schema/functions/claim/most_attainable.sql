-- The largest weight of jobs that can start on a node beside a reserve once others have ended: its claims pass over
-- heavier ones, as next_job() says. Null if it can start any.
create or replace function txqueue.most_attainable(report jsonb, its_capacity integer, reserve double precision) returns integer
language plpgsql immutable
set search_path = txqueue, pg_temp
as $$
declare
    kept constant integer := greatest(0, least(ceil(coalesce(reserve, 0) * its_capacity), its_capacity - 1));
    room record;
begin
    if coalesce(report -> 'left', '{}') = '{}' and coalesce(report -> 'closed', '{}') = '{}' then
        return null;
    end if;
    room := attainable_room(report, its_capacity);
    return case when least(room.largest, room.total - kept) < (report -> 'room' ->> 'capacity')::integer
                then least(room.largest, room.total - kept) end;
end $$;
