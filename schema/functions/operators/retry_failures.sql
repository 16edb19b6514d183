-- Retries jobs of one kind of failure that failed before a moment, at most at_most at once; jobs that wait
-- for a retry run now. Returns how many, and the moment to pass in the next call, so that jobs that fail
-- again meanwhile are not retried repeatedly.
create or replace function txqueue.retry_failures(
    its_fingerprint text, who text, before timestamptz default null, at_most integer default 1000,
    out retried integer, out until timestamptz)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    ids  bigint[];
    last bigint := '-9223372036854775808';
begin
    until := coalesce(before, clock_timestamp());
    retried := 0;
    loop
        ids := array(
            select job_id from job
             where fingerprint = its_fingerprint and failed_at <= until and job_id > last
               and (state = 'failed' or state = 'waiting' and waiting_for = 'time')
             order by job_id limit at_most);
        if ids = '{}' and last < '-9223372036854775807' and before is null then
            perform refuse(format('no job has failed like %s', left(its_fingerprint, 100)), 'txqueue failures lists the kinds');
        end if;
        exit when ids = '{}';
        retried := cardinality((select again.retried from retry(ids, who) as again));
        -- Jobs whose unique key another job holds are refused, and must not hide those behind them.
        exit when retried > 0;
        last := ids[cardinality(ids)];
    end loop;
end $$;
