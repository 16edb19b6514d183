-- Runs jobs again that failed in one way before a moment, at most so many at once, failed ones anew; those that
-- wait for another attempt need not wait. Returns how many, and the moment: pass it to go on, or what fails
-- again meanwhile would come again and again.
create or replace function txqueue.retry_failures(
    its_fingerprint text, who text, before timestamptz default null, at_most integer default 1000,
    out retried integer, out until timestamptz)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
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
        -- Whose unique key another job holds is refused, and must not hide those behind it.
        exit when retried > 0;
        last := ids[cardinality(ids)];
    end loop;
end $$;
