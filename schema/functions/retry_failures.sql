-- Runs jobs again that failed in one way before a moment, at most so many at once, failed ones anew; those that
-- wait for another attempt need not wait. Returns how many, and the moment: pass it to go on, or what fails
-- again meanwhile would come again and again.
create or replace function @schema@.retry_failures(
    its_fingerprint text, who text, before timestamptz default null, at_most integer default 1000,
    out retried integer, out until timestamptz)
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    ids bigint[];
begin
    until := coalesce(before, clock_timestamp());
    ids := array(
        select job_id from job
         where fingerprint = its_fingerprint and failed_at <= until
           and (state = 'failed' or state = 'waiting' and waiting_for = 'time')
         limit at_most);
    if ids = '{}' and before is null then
        perform refuse(format('no job has failed like %s', left(its_fingerprint, 100)), 'txqueue failures lists the kinds');
    end if;
    retried := case when ids = '{}' then 0 else cardinality((select again.retried from retry(ids, who) as again)) end;
end $$;
