-- Which of some jobs have, or wait for, a unique key that an open transaction has locked, or belong to a
-- schedule that one has locked. Locks the keys of the others after their schedules, in the order of
-- propagate_ends().
create or replace function txqueue.find_held_keys(ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    open bigint[];
    free jsonb;
begin
    open := array(select last_job from schedule where kind = 'cooldown' and last_job = any (ids)
                   order by schedule_id for update skip locked);
    free := (select coalesce(jsonb_object_agg(job_id, key), '{}') from (
        select job_id, key from unique_job where job_id = any (ids) or next_id = any (ids) for update skip locked) as mine);
    return array(
        select id from unique_job as other, lateral (values (other.job_id), (other.next_id)) as each (id)
         where (other.job_id = any (ids) or other.next_id = any (ids)) and id = any (ids)
           and not free ? other.job_id::text
        union
        select last_job from schedule where kind = 'cooldown' and last_job = any (ids) and last_job <> all (open));
end $$;
