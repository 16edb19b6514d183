-- What jobs did in the last time, in equal steps, the oldest first, for charts: of all, or of one queue or work
-- type; span and step in seconds, at least 60 and at most 366 days. Steps without a mark are left out. Rates are jobs a second; numbers of jobs and percentiles are means.
create or replace function txqueue.chart(
    its_span double precision, its_step double precision, its_queue text default null, its_work_type text default null)
returns table (at timestamptz, seconds double precision, enqueued double precision, done double precision,
               failed double precision, wait_p50 double precision, wait_p95 double precision, run_p50 double precision,
               run_p95 double precision, waiting double precision, ready double precision, assigned double precision)
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    with bounds as (
        select make_interval(secs => least(greatest(its_span, 60), 31622400)) as span,
               make_interval(secs => least(greatest(its_step, 60), 31622400)) as step
    ), marks as (
        select mark.at, mark.seconds, mark.enqueued, date_bin(bounds.step, mark.at, '2000-01-01 00:00Z') as step
          from minute_mark as mark cross join bounds where mark.at > now() - bounds.span
    ), sums as (
        select marks.at, marks.step, sum(each.done) as done, sum(each.failed) as failed,
               sum(each.wait_p50 * each.done) / nullif(sum(each.done) filter (where each.wait_p50 is not null), 0) as wait_p50,
               max(each.wait_p95) as wait_p95,
               sum(each.run_p50 * each.done) / nullif(sum(each.done) filter (where each.run_p50 is not null), 0) as run_p50,
               max(each.run_p95) as run_p95,
               sum(each.waiting) as waiting, sum(each.ready) as ready, sum(each.assigned) as assigned
          from marks left join minute_counts as each
            on each.at = marks.at and (its_queue is null or each.queue = its_queue)
           and (its_work_type is null or each.work_type = its_work_type)
         group by marks.at, marks.step
    )
    select marks.step, sum(marks.seconds), sum(marks.enqueued) / sum(marks.seconds), coalesce(sum(done), 0) / sum(marks.seconds),
           coalesce(sum(failed), 0) / sum(marks.seconds), avg(wait_p50), max(wait_p95), avg(run_p50), max(run_p95),
           avg(coalesce(waiting, 0)), avg(coalesce(ready, 0)), avg(coalesce(assigned, 0))
      from marks join sums using (at)
     group by marks.step order by marks.step
$$;
comment on function txqueue.chart(double precision, double precision, text, text) is 'What jobs did lately, in equal steps.';
