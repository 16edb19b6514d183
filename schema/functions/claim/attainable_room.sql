-- What ends of jobs can make free on a node that reports that threads of ended jobs keep a part of its workers, or that
-- some can start no job: the largest weight in one worker, and the weight of all. Each is null if that is all of it.
create or replace function txqueue.attainable_room(
    report jsonb, its_capacity integer, out largest integer, out total integer)
language plpgsql immutable
set search_path = txqueue, pg_temp
as $$
declare
    of_worker integer := (report -> 'room' ->> 'capacity')::integer;
    unable    integer := coalesce((report -> 'closed' ->> 'blocked')::integer, 0) + coalesce((report -> 'closed' ->> 'stuck')::integer, 0);
begin
    -- A node that reported no worker at all may have one since.
    largest := nullif((report -> 'room' ->> 'attainable')::integer, 0);
    largest := case when largest < of_worker then largest end;
    total := ((report ->> 'workers')::integer - unable) * of_worker - coalesce((report -> 'left' ->> 'weight')::integer, 0);
    total := case when total < its_capacity then total end;
end $$;
