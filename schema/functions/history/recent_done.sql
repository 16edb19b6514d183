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
