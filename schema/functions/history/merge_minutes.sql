-- Merges the minutes of one hour that ended two days ago into that hour, and drops hours after 30 days; both a
-- little at each call.
create or replace function txqueue.merge_minutes() returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
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
