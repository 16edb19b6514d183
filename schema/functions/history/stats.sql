-- Statistics of ended jobs in a time span, per hour and work type: how many in which state, the seconds of
-- their last runs, and how long they waited after they were due. Reads only the days of the span.
create or replace function txqueue.stats(since timestamptz, until timestamptz default now())
returns table (hour timestamptz, work_type text, done bigint, failed bigint, cancelled bigint,
               busy double precision, mean double precision, longest double precision, waited double precision)
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select date_trunc('hour', finished_at, 'UTC') as hour, ended.work_type, count(*) filter (where state = 'done'),
           count(*) filter (where state = 'failed'), count(*) filter (where state = 'cancelled'),
           coalesce(sum(took), 0), avg(took), max(took), avg(extract(epoch from began - due)::double precision)
      from (select finished_at, job.work_type, state, coalesce(started_at, assigned_at) as began,
                   greatest(enqueued_at, not_before) as due,
                   extract(epoch from finished_at - coalesce(started_at, assigned_at))::double precision as took
              from job
             where state in ('done', 'failed', 'cancelled') and finished_at >= since and finished_at < until) as ended
     group by 1, 2
     order by 1, 2
$$;
