-- Does what note_minute() does; if this call noted the minute, returns how long the jobs waited that were done in
-- it: for each queue and work type, how many waited up to each of the bounds in seconds, and longer than the last,
-- and the sum of their waits.
--
-- Reads what note_minute() has just read, and scales it up as that does. The 200 pairs with the most jobs have
-- names; the others count together, without names.
create or replace function txqueue.measure_minute(bounds double precision[])
returns table (queue text, work_type text, counts bigint[], total double precision)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    until timestamptz;
    since timestamptz;
begin
    -- This also empties the queue of notifications of what all sessions have read. Once it is full, PostgreSQL refuses
    -- commits that notify, and does not look again by itself.
    perform pg_notification_queue_usage();
    if not note_minute() then
        return;
    end if;
    select mark.at, mark.at - make_interval(secs => mark.seconds) into until, since
      from minute_mark as mark order by mark.at desc limit 1;
    return query
    with ended as materialized (
        select job.queue, job.work_type, job.finished_at,
               greatest(extract(epoch from coalesce(job.started_at, job.assigned_at) - greatest(job.enqueued_at, job.not_before)), 0)::float8 as waited
          from job_done as job
         where job.finished_at >= since and job.finished_at < until and job.ctid >= last_pages('job_done', since, 1024)
    ), scale as (
        select case when last_pages('job_done', since, 1024) > '(0,0)'
                    then greatest(extract(epoch from until - since) / greatest(extract(epoch from until - min(finished_at)), 0.001), 1)
                    else 1 end::float8 as factor
          from ended
    ), named as (
        select queue, work_type, row_number() over (order by count(*) desc, queue, work_type) <= 200 as is_named
          from ended group by 1, 2
    ), placed as (
        -- A wait that equals a bound counts up to it; moments have microseconds.
        select case when is_named then queue else '' end as queue, case when is_named then work_type else '' end as work_type,
               width_bucket(waited - 0.0000005, bounds) as place, count(*) as jobs, sum(waited) as waited
          from ended join named using (queue, work_type) group by 1, 2, 3
    )
    select queue, work_type,
           array(select coalesce(round(sum(mine.jobs) * factor), 0)::bigint
                   from generate_series(0, cardinality(bounds)) as step (place)
                   left join placed as mine on mine.place = step.place
                    and (mine.queue, mine.work_type) = (pair.queue, pair.work_type)
                  group by step.place order by step.place),
           sum(pair.waited) * factor
      from placed as pair cross join scale group by queue, work_type, factor;
end $$;
