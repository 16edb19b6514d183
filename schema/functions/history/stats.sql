-- Statistics of ended jobs in a time span, per hour and work type: how many in which state, the seconds of
-- their last runs, and how long they waited after they were due. Reads only the days of the span. Of archived days it
-- counts whole hours, as noted when they were archived.
create or replace function txqueue.stats(since timestamptz, until timestamptz default now())
returns table (hour timestamptz, work_type text, done bigint, failed bigint, cancelled bigint,
               busy double precision, mean double precision, longest double precision, waited double precision)
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select hour, work_type, coalesce(sum(jobs) filter (where state = 'done'), 0)::bigint,
           coalesce(sum(jobs) filter (where state = 'failed'), 0)::bigint,
           coalesce(sum(jobs) filter (where state = 'cancelled'), 0)::bigint,
           coalesce(sum(busy), 0), sum(busy) / nullif(sum(began), 0), max(longest), sum(waited) / nullif(sum(began), 0)
      from (select date_trunc('hour', finished_at, 'UTC') as hour, ended.work_type, state, count(*) as jobs,
                   count(began) as began, sum(took) as busy, max(took) as longest,
                   sum(extract(epoch from began - due)::double precision) as waited
              from (select finished_at, job.work_type, state, coalesce(started_at, assigned_at) as began,
                           greatest(enqueued_at, not_before) as due,
                           extract(epoch from finished_at - coalesce(started_at, assigned_at))::double precision as took
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
