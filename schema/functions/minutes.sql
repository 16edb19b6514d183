-- What jobs did each minute: what programs call comes first, then its steps and what they use.

-- What jobs did in the last time, in equal steps, the oldest first, for charts: of all, or of one queue or work
-- type; span and step in seconds, at least 60 and at most 366 days. Steps without a mark are left out. Rates are jobs a second; numbers of jobs and percentiles are means.
create or replace function txqueue.chart(
    its_span double precision, its_step double precision, its_queue text default null, its_work_type text default null)
returns table (at timestamptz, seconds double precision, enqueued double precision, done double precision,
               failed double precision, wait_p50 double precision, wait_p95 double precision, run_p50 double precision,
               run_p95 double precision, waiting double precision, ready double precision, assigned double precision)
language sql stable security definer
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

-- Does what note_minute() does; if this call noted the minute, returns how long the jobs waited that were done in
-- it: for each queue and work type, how many waited up to each of the bounds in seconds, and longer than the last,
-- and the sum of their waits.
--
-- Reads what note_minute() has just read, and scales it up as that does. The 200 pairs with the most jobs have
-- names; the others count together, without names.
create or replace function txqueue.measure_minute(bounds double precision[])
returns table (queue text, work_type text, counts bigint[], total double precision)
language plpgsql volatile security definer
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

-- Notes what jobs have done since the last mark, at most once a minute for all nodes; returns whether it did.
--
-- Reads at most the last 1,024 pages of today's done jobs and 128 of failed attempts; if these are of a
-- shorter time, it scales their counts up. Jobs that have not ended are counted only while there are less than
-- two million. Keeps the 200 queues and work types with the most jobs; the others count together, without names.
-- Also deletes old notes of where groups begin.
create or replace function txqueue.note_minute() returns boolean
language plpgsql volatile security definer
as $$
declare
    now_      timestamptz := clock_timestamp();
    last      minute_mark;
    since     timestamptz;
    span      double precision;
    numbered  bigint := (select case when is_called then last_value else last_value - 1 end from job_id);
    is_large  boolean;
begin
    select * into last from minute_mark order by at desc limit 1;
    if last.at > now_ - interval '1 minute' or not try_duty('minute') then
        return false;
    end if;
    -- Another session may have noted it while this one waited for nothing.
    select * into last from minute_mark order by at desc limit 1;
    if last.at > now_ - interval '1 minute' then
        return false;
    end if;
    is_large := (select coalesce(sum(n_live_tup), 0) > 2000000 from pg_stat_all_tables
                  where schemaname = 'txqueue' and relname ~ '^job_(waiting|ready_[0-9]|assigned_[0-9])$');
    since := greatest(last.at, now_ - interval '2 minutes', date_trunc('day', now_, 'UTC'));
    if last.at is null then
        since := greatest(now_ - interval '1 minute', since);
    end if;
    span := greatest(extract(epoch from now_ - since), 0.001);
    insert into minute_mark (at, seconds, last_job, enqueued)
    values (now_, span, numbered, case when last.at >= since then numbered - last.last_job end);
    insert into minute_counts (at, queue, work_type, done, failed, wait_p50, wait_p95, run_p50, run_p95, waiting, ready, assigned)
    select now_, case when place <= 200 then queue else '' end, case when place <= 200 then work_type else '' end,
           sum(done), sum(failed), avg(wait_p50), avg(wait_p95), avg(run_p50), avg(run_p95),
           sum(waiting), sum(ready), sum(assigned)
      from (select found.*, row_number() over (order by coalesce(done, 0) + coalesce(ready, 0) desc, queue, work_type) as place
              from minute_figures(since, is_large) as found) as each
     group by 2, 3;
    perform merge_minutes();
    delete from group_front
     where ctid = any (array(select ctid from group_front where noted_at < now_ - interval '1 minute' for update skip locked));
    return true;
end $$;

-- What jobs of each queue and work type have done since a moment of today, and how many there are; see
-- note_minute(). Without the numbers of jobs that have not ended, if these are too many to count.
create or replace function txqueue.minute_figures(since timestamptz, is_large boolean)
returns table (queue text, work_type text, done integer, failed integer, wait_p50 double precision, wait_p95 double precision,
               run_p50 double precision, run_p95 double precision, waiting bigint, ready bigint, assigned bigint)
language sql volatile
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
      from sums full join minute_failures(since) as failures using (queue, work_type) full join live using (queue, work_type) cross join scale
$$;

-- How many attempts of each queue and work type have failed since a moment of today, also of jobs that are done by
-- now; see note_minute(). Every job is found by its number: nearly all of a day's history is older.
create or replace function txqueue.minute_failures(since timestamptz)
returns table (queue text, work_type text, failed integer)
language sql volatile
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

-- Merges the minutes of one hour that ended two days ago into that hour, and drops hours after 30 days; both a
-- little at each call.
create or replace function txqueue.merge_minutes() returns void
language plpgsql volatile
as $$
declare
    oldest timestamptz;
    hour   timestamptz;
begin
    delete from minute_counts where at < now() - interval '30 days';
    delete from minute_mark where at < now() - interval '30 days';
    select min(at) into oldest from minute_mark where seconds < 1800 and at < now() - interval '49 hours';
    if oldest is null then
        return;
    end if;
    hour := date_trunc('hour', oldest, 'UTC');
    with gone as (
        delete from minute_counts where at >= hour and at < hour + interval '1 hour' returning *
    )
    insert into minute_counts (at, queue, work_type, done, failed, wait_p50, wait_p95, run_p50, run_p95, waiting, ready, assigned)
    select hour, queue, work_type, sum(done), sum(failed), avg(wait_p50), avg(wait_p95), avg(run_p50), avg(run_p95),
           avg(waiting), avg(ready), avg(assigned)
      from gone group by queue, work_type;
    with gone as (
        delete from minute_mark where at >= hour and at < hour + interval '1 hour' returning *
    )
    insert into minute_mark (at, seconds, last_job, enqueued)
    select hour, 3600, max(last_job), sum(enqueued) from gone;
end $$;

-- How many jobs of each queue were done since a moment at most a minute ago. History has no index
-- on time, but it only grows at its end: so this reads no more than the last 4,096 pages of today's
-- partition, and where they hold less than a minute, since is the oldest job in them.
create or replace view txqueue.recent_done as
with today as materialized (
    select greatest(now() - interval '1 minute', date_trunc('day', now(), 'UTC')) as beginning,
           greatest(0, pg_relation_size(to_regclass(
               'txqueue.job_done_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')))
               / current_setting('block_size')::integer - 4096) as first_page
), done as materialized (
    select queue, finished_at from txqueue.job_done
     where finished_at >= greatest(now() - interval '1 minute', date_trunc('day', now(), 'UTC'))
       and ctid >= (select format('(%s,0)', coalesce(first_page, 0))::tid from today)
)
select done.queue, count(*) as jobs,
       case when min(today.first_page) > 0 then (select min(finished_at) from done)
            else min(today.beginning) end as since
  from done cross join today
 group by done.queue;
comment on view txqueue.recent_done is 'Recently done jobs, by queue.';

-- Statistics of ended jobs in a time span, per hour and work type: how many in which state, the seconds of
-- their last runs, and how long they waited after they were due. Reads only the days of the span. Of archived days it
-- counts whole hours, as noted when they were archived. With date_trunc and extract it took 1.7 times as long.
create or replace function txqueue.stats(since timestamptz, until timestamptz default now())
returns table (hour timestamptz, work_type text, done bigint, failed bigint, cancelled bigint,
               busy double precision, mean double precision, longest double precision, waited double precision)
language sql stable security definer
as $$
    select hour, work_type, coalesce(sum(jobs) filter (where state = 'done'), 0)::bigint,
           coalesce(sum(jobs) filter (where state = 'failed'), 0)::bigint,
           coalesce(sum(jobs) filter (where state = 'cancelled'), 0)::bigint,
           coalesce(sum(busy), 0), sum(busy) / nullif(sum(began), 0), max(longest), sum(waited) / nullif(sum(began), 0)
      from (select date_bin('1 hour', finished_at, '2000-01-01Z') as hour, ended.work_type, state, count(*) as jobs,
                   count(began) as began, sum(took) as busy, max(took) as longest,
                   sum(date_part('epoch', began - due)) as waited
              from (select finished_at, job.work_type, state, coalesce(started_at, assigned_at) as began,
                           greatest(enqueued_at, not_before) as due,
                           date_part('epoch', finished_at - coalesce(started_at, assigned_at)) as took
                      from job
                     where state in ('done', 'failed', 'cancelled') and finished_at >= since and finished_at < until) as ended
             group by 1, 2, 3
             union all
            select its.hour, its.work_type, past.state, its.jobs, its.began, its.busy, its.longest, its.waited
              from archived as past, jsonb_to_recordset(past.hours) as its (
                   hour timestamptz, work_type text, jobs bigint, began bigint, busy float8, longest float8, waited float8)
             where past.dropped_at is not null and past.day >= (since at time zone 'UTC')::date
               and past.day <= (until at time zone 'UTC')::date
               and its.hour >= date_trunc('hour', since, 'UTC') and its.hour < until) as counted
     group by 1, 2
     order by 1, 2
$$;
