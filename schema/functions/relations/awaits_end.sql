-- Whether a job goes on only after the end of another one: as a follower in a chain of calls, `after` and unique keys, or
-- as that job itself. Looks at a thousand jobs at most. Only a live job waits: a failed one keeps its steps.
create or replace function txqueue.awaits_end(its_job_id bigint, of_job bigint) returns boolean
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    with recursive awaited (job_id) as (
        select its_job_id
        union
        select next.job_id
          from awaited cross join lateral (
               select parent as job_id from job_parent where child = awaited.job_id and ended is null
               union all
               select child from job_step
                where job_step.job_id = awaited.job_id and child is not null and ended_at is null and is_live_job(awaited.job_id)
               union all
               select holder.job_id from unique_job as holder where next_id = awaited.job_id) as next
    )
    select exists (select from (select job_id from awaited limit 1000) as few where job_id = of_job)
$$;
