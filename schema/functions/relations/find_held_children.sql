-- Which of some jobs have children, or children of those, that wait for parents and that the caller could not
-- lock.
create or replace function txqueue.find_held_children(ids bigint[], locked bigint[]) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
begin
    return array(
        with recursive heir (first, job_id) as (
            select id, id from unnest(ids) as id
            union
            select heir.first, further.child from heir join job_parent as further on further.parent = heir.job_id
        )
        select distinct heir.first from heir
         where heir.job_id <> all (locked)
           and exists (select from job_waiting as held where held.job_id = heir.job_id and held.waiting_for in ('parents', 'time'))
           and exists (select from job_parent where child = heir.job_id));
end $$;
