-- Ends the waits of some jobs for which signals are there, the oldest wait with the oldest signal of its name.
-- Returns the jobs of which a wait has ended. The caller has locked the jobs, and with them these rows.
create or replace function txqueue.take_signals(ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    taken bigint[];
begin
    with wanted as (
        select step.ctid as step, step.job_id, step.signal, row_number() over (partition by step.job_id, step.signal order by step.number) as place
          from job_step as step
         where step.job_id = any (ids) and step.signal is not null and step.ended_at is null
    ), present as (
        select sent.ctid as sent, sent.job_id, sent.name as signal, sent.key, sent.value,
               row_number() over (partition by sent.job_id, sent.name order by sent.number) as place
          from job_signal as sent
         where sent.job_id = any (ids) and sent.taken_at is null
    ), pairs as (
        select step, sent, key, value from wanted join present using (job_id, signal, place)
    ), gone as (
        delete from job_signal as signal using pairs where signal.ctid = pairs.sent and pairs.key is null
    ), used as (
        -- It stays, so that a repeated key changes nothing.
        update job_signal as signal set taken_at = clock_timestamp() from pairs where signal.ctid = pairs.sent and pairs.key is not null
    ), ended as (
        update job_step as awaited set result = pairs.value, ended_at = clock_timestamp()
          from pairs where awaited.ctid = pairs.step
        returning awaited.job_id
    )
    select array_agg(distinct job_id) into taken from ended;
    return coalesce(taken, '{}');
end $$;
