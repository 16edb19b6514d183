-- The last runs of schedules, up to a number for each, the latest first: the due moment, the job, its start
-- and end, how late it first started (or is, if it has yet to start) and how long its last attempt took in seconds, and its
-- outcome (null once history has dropped it). All values come from the rows of the jobs and of their failed attempts.
create or replace function txqueue.schedule_runs(names text[], at_most integer default 20)
returns table (name text, due timestamptz, job_id bigint, outcome text, started_at timestamptz, finished_at timestamptz,
               late double precision, took double precision, attempt smallint, error text)
language sql stable security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
    select this.name, run.due, run.job_id, job.state::text, began.at, job.finished_at,
           extract(epoch from case when job.state in ('waiting', 'ready') and began.first is null then greatest(clock_timestamp(), run.due)
                                   else began.first end - run.due)::double precision,
           extract(epoch from coalesce(job.finished_at, clock_timestamp()) - began.at)::double precision,
           job.attempt, split_part(readable_text(job.error), E'\n', 1)
      from schedule as this
     cross join lateral unnest(this.recent[:at_most], this.dues[:at_most]) with ordinality as run (job_id, due, place)
      left join lateral (select * from job where job.job_id = run.job_id order by state in ('done', 'cancelled') limit 1) as job on true
      left join lateral (select min(coalesce(tried.began, tried.at)) as at from failed_attempt as tried
                          where tried.job_id = run.job_id and job.attempt > 0) as tried on true
     cross join lateral (select coalesce(job.started_at, job.assigned_at) as at,
                                least(coalesce(tried.at, job.started_at, job.assigned_at),
                                      (readable_json(job.options) ->> 'began')::timestamptz) as first) as began
     where this.name = any (names)
     order by this.name, run.place
$$;
