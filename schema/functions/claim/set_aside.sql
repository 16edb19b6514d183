-- Fails the jobs that cannot be given to a worker, each with the reason, after a statement has failed for one of
-- them: first those that are assigned to the node, then those that are ready or due in some queues, up to
-- 10,000 in rank order; if it is none of these, damaged ones of all, up to 10,000. Returns their numbers.
create or replace function txqueue.set_aside(its_incarnation integer, queues text[]) returns bigint[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    place    record;
    moved    record;
    fault    text;
    failed   bigint[] := '{}';
    followed bigint[] := '{}';
    groups   text[] := '{}';
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
        continue when fault is null;
        moved := fail_unreadable(place.state, place.lane, place.job_id, fault);
        failed := failed || moved.failed;
        followed := followed || moved.followed;
        groups := groups || moved.freed_group;
    end loop;
    if array_remove(failed, null) = '{}' then
        -- A job that the statement had to move: it follows one that ended, or was of a node that has died.
        for place in
            select state, lane, job_id from job as this
             where state in ('waiting', 'ready', 'assigned') and job_id > 0 and has_large_values(this) limit 10000
        loop
            fault := find_loss(place.state, place.lane, place.job_id);
            continue when fault is null;
            moved := fail_unreadable(place.state, place.lane, place.job_id, fault);
            failed := failed || moved.failed;
            followed := followed || moved.followed;
            groups := groups || moved.freed_group;
        end loop;
    end if;
    failed := array_remove(failed, null);
    if failed = '{}' then
        return failed;
    end if;
    if array_remove(followed, null) <> '{}' then
        perform propagate_ends(array_remove(followed, null), 'failed');
    end if;
    if has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(failed, ','));
    end if;
    if array_remove(groups, null) <> '{}' then
        perform free_groups(array_remove(groups, null));
    end if;
    return failed;
end $$;
