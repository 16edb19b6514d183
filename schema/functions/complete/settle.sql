-- Writes the outcomes of jobs that did not just return: an array of objects with job_id, lane, assignment,
-- outcome ('done', 'retry', 'snooze', 'next', 'unread', 'suspended', 'failed', 'cancelled'), and where they apply delay
-- (seconds), waits (see suspend_jobs()), error, trace and frames (an error's traceback, see txqueue/store/node/outcomes.py), error_class, log, result, progress, version (of the type that could not read it), and
-- unstarted if it never ran. Only jobs whose token still holds
-- are changed. Returns their numbers, whether other jobs may have become ready, and the first of those that are known,
-- as complete() does.
create or replace function txqueue.settle(
    its_incarnation integer, outcomes jsonb, out settled bigint[], out freed boolean, out freed_rank text, out freed_job bigint)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    ended   record;
    moved_on record;
    locked  bigint[];
    failed  bigint[];
    groups  text[];
    first   ready_head;
    resumed ready_head;
begin
    ended := end_assigned(its_incarnation, outcomes);
    settled := ended.settled;
    freed := ended.limited;
    failed := ended.failed;
    groups := ended.groups;
    if ended.retried is not null then
        freed := take_newest(ended.retried) or freed;
    end if;
    if ended.others then
        moved_on := start_next_stages(its_incarnation, outcomes);
        settled := settled || moved_on.settled;
        freed := freed or moved_on.settled <> '{}';
        failed := failed || moved_on.failed;
        groups := groups || array_remove(moved_on.groups, null);
        moved_on := leave_unread(its_incarnation, outcomes);
        settled := settled || moved_on.settled;
        freed := freed or moved_on.settled <> '{}';
        failed := failed || moved_on.failed;
        groups := groups || array_remove(moved_on.groups, null);
        moved_on := suspend_jobs(its_incarnation, outcomes);
        settled := settled || moved_on.settled;
        freed := freed or moved_on.limited;
        groups := groups || array_remove(moved_on.groups, null);
        resumed := moved_on.first;
    end if;
    if ended.done || failed || ended.stopped <> '{}' then
        locked := lock_children(ended.done, failed || ended.stopped);
        if ended.done <> '{}' then
            first := propagate_ends(ended.done, 'done', locked);
        end if;
        if failed <> '{}' then
            first := least(first, propagate_ends(failed, 'failed', locked));
        end if;
        if ended.stopped <> '{}' then
            first := least(first, propagate_ends(ended.stopped, 'cancelled', locked));
        end if;
    end if;
    if groups <> '{}' then
        first := least(first, free_groups(groups));
        freed := true;
    end if;
    first := least(first, resumed);
    if first.rank is not null then
        freed := true;
        freed_rank := first.rank;
        freed_job := first.job_id;
    end if;
end $$;
