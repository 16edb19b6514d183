-- Notes what jobs have done since the last mark, at most once a minute for all nodes; returns whether it did.
--
-- Reads at most the last 1,024 pages of today's done jobs and 128 of failed attempts; if these are of a
-- shorter time, it scales their counts up. Jobs that have not ended are counted only while there are less than
-- two million. Keeps the 200 queues and work types with the most jobs; the others count together, without names.
-- Also deletes old notes of where groups begin.
create or replace function txqueue.note_minute() returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
