-- Returns those of some jobs that wait for a signal which is there. The signal stays until a wait of their next run takes
-- it, by take_signal(): its code may have changed.
create or replace function txqueue.signalled_jobs(ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    return array(
        select distinct step.job_id
          from job_step as step join job_signal as sent on sent.job_id = step.job_id and sent.name = step.signal
         where step.job_id = any (ids) and step.ended_at is null and sent.taken_at is null);
end $$;
