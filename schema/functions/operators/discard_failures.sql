-- Turns failed jobs of one kind of failure before a moment into cancelled ones, at most at_most at once.
-- Returns how many, and the moment to pass in the next call.
create or replace function txqueue.discard_failures(
    its_fingerprint text, who text, before timestamptz default null, at_most integer default 1000,
    out discarded integer, out until timestamptz)
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
    discarded := 0;
    loop
        ids := array(
            select job_id from job
             where fingerprint = its_fingerprint and failed_at <= until and state = 'failed' and job_id > last
             order by job_id limit at_most);
        if ids = '{}' and last < '-9223372036854775807' and before is null then
            perform refuse(format('no job has failed for good like %s', left(its_fingerprint, 100)), 'txqueue failures lists the kinds');
        end if;
        exit when ids = '{}';
        discarded := cardinality((select ended.cancelled from cancel(ids, who) as ended));
        -- Damaged jobs are refused, and must not hide those behind them.
        exit when discarded > 0;
        last := ids[cardinality(ids)];
    end loop;
end $$;
