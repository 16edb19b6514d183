-- Fails the jobs that cannot be given to a worker, each with the reason, after a claim has failed for one of
-- them: first those that are assigned to the node, then those that are ready or due in some queues, up to
-- 10,000 in rank order. Returns their numbers.
create or replace function txqueue.set_aside(its_incarnation integer, queues text[]) returns bigint[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    place record;
    fault text;
    found_ids bigint[] := '{}';
begin
    for place in
        select state, lane, job_id from job_assigned where incarnation = its_incarnation
        union all
        (select state, lane, job_id from job_ready where queue = any (queues) order by rank, job_id limit 10000)
        union all
        (select state, lane, job_id from job_waiting
          where queue = any (queues) and waiting_for = 'time' and not_before <= clock_timestamp() order by not_before limit 10000)
    loop
        fault := find_fault(place.state, place.lane, place.job_id);
        if fault is not null and fail_unreadable(place.state, place.lane, place.job_id, fault) then
            found_ids := found_ids || place.job_id;
        end if;
    end loop;
    return found_ids;
end $$;
