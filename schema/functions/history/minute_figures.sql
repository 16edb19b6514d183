-- What jobs of each queue and work type have done since a moment of today, and how many there are; see
-- note_minute(). Without the numbers of jobs that have not ended, if these are too many to count.
create or replace function txqueue.minute_figures(since timestamptz, is_large boolean)
returns table (queue text, work_type text, done integer, failed integer, wait_p50 double precision, wait_p95 double precision,
               run_p50 double precision, run_p95 double precision, waiting bigint, ready bigint, assigned bigint)
language sql volatile
set search_path = txqueue, pg_temp
as $$
    with ended as materialized (
        select job.queue, job.work_type, job.finished_at,
               greatest(extract(epoch from coalesce(job.started_at, job.assigned_at) - greatest(job.enqueued_at, job.not_before)), 0) as waited,
               greatest(extract(epoch from job.finished_at - coalesce(job.started_at, job.assigned_at)), 0) as took
          from job_done as job
         where job.finished_at >= since and job.ctid >= last_pages('job_done', since, 1024)
    ), scale as (
        select extract(epoch from clock_timestamp() - since) as span,
               extract(epoch from clock_timestamp() - (select min(finished_at) from ended)) as covered,
               last_pages('job_done', since, 1024) > '(0,0)' as is_part
    ), sums as (
        select ended.queue, ended.work_type, count(*) as jobs,
               percentile_cont(0.5) within group (order by waited) as wait_p50,
               percentile_cont(0.95) within group (order by waited) as wait_p95,
               percentile_cont(0.5) within group (order by took) as run_p50,
               percentile_cont(0.95) within group (order by took) as run_p95
          from ended group by ended.queue, ended.work_type
    ), failures as (
        select each.queue, each.work_type, each.failed from minute_failures(since) as each
    ), live as (
        select job.queue, job.work_type, count(*) filter (where state = 'waiting') as waiting,
               count(*) filter (where state = 'ready') as ready, count(*) filter (where state = 'assigned') as assigned
          from job where state in ('waiting', 'ready', 'assigned') and not is_large
         group by job.queue, job.work_type
    )
    select coalesce(sums.queue, failures.queue, live.queue), coalesce(sums.work_type, failures.work_type, live.work_type),
           coalesce(round(sums.jobs * case when scale.is_part then greatest(scale.span / greatest(scale.covered, 0.001), 1) else 1 end), 0)::integer,
           coalesce(failures.failed, 0),
           sums.wait_p50, sums.wait_p95, sums.run_p50, sums.run_p95,
           case when not is_large then coalesce(live.waiting, 0) end, case when not is_large then coalesce(live.ready, 0) end,
           case when not is_large then coalesce(live.assigned, 0) end
      from sums full join failures using (queue, work_type) full join live using (queue, work_type) cross join scale
$$;
