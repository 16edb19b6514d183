-- How many attempts of each queue and work type have failed since a moment of today, also of jobs that are done by
-- now; see note_minute(). Every job is found by its number: nearly all of a day's history is older.
create or replace function txqueue.minute_failures(since timestamptz)
returns table (queue text, work_type text, failed integer)
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    with attempts as materialized (
        select tried.job_id, tried.at from failed_attempt as tried
         where tried.at >= since and tried.restarted_by is null and tried.ctid >= last_pages('failed_attempt', since, 128)
    ), scale as (
        select case when last_pages('failed_attempt', since, 128) > '(0,0)'
                    then greatest(extract(epoch from clock_timestamp() - since)
                                  / greatest(extract(epoch from clock_timestamp() - min(at)), 0.001), 1)
                    else 1 end as factor
          from attempts
    ), tries as (
        select job_id, count(*) as failed from attempts group by job_id
    )
    select job.queue, job.work_type, round(sum(tries.failed) * min(scale.factor))::integer
      from tries cross join scale cross join lateral (
           select its.queue, its.work_type from job as its
            where its.job_id = tries.job_id
              and (its.state in ('waiting', 'ready', 'assigned', 'failed')
                   or its.state in ('done', 'cancelled') and its.finished_at >= since
                      and its.finished_at < now() + interval '1 hour')
            limit 1) as job
     group by job.queue, job.work_type
$$;
