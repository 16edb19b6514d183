-- Changes the priority of unclaimed jobs. Returns their numbers, and those of the others.
create or replace function txqueue.set_priority(
    ids bigint[], its_priority integer, who text, out changed bigint[], out refused bigint[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    locked bigint[];
begin
    if its_priority is null or its_priority not between 0 and 9 then
        perform refuse(format('priority %s is not within 0 to 9', coalesce(its_priority::text, 'null')),
                       'use 2 for low, 4 for normal, 7 for high');
    end if;
    perform check_isolation('a priority is not changed');
    locked := (lock_acted_on(ids, '{waiting,ready}')).locked;
    -- Parked jobs may rank before what is noted of their groups, whose keys are locked.
    delete from group_front where "group" in (select "group" from job_waiting where waiting_for = 'group' and job_id = any (locked));
    with ranked as (
        update job
           set priority = its_priority,
               rank = compute_rank(not_before, not_after, its_priority, (select aging from setting))
         where job_id = any (locked) and state in ('waiting', 'ready')
        returning job_id
    )
    select coalesce(array_agg(job_id order by job_id), '{}') into changed from ranked;
    refused := array(select distinct id from unnest(ids) as id where id <> all (changed) order by id);
    if changed <> '{}' then
        perform note_action(who, 'priority', format_job_ids(changed), jsonb_build_object(
            'jobs', changed, 'priority', its_priority, 'changed', cardinality(changed), 'refused', cardinality(refused)));
    end if;
end $$;
