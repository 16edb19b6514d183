-- Makes those of some jobs ready that wait for a signal which is there, for propagate_late_ends(), which has locked
-- them. Returns which.
create or replace function txqueue.resume_signalled(ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    to_lane smallint := current_lane();
    resumed bigint[] := take_signals(array(
        select job_id from job_waiting
         where job_id = any (ids) and waiting_for in ('signal', 'time', 'parents') and options ? 'steps'
           -- Not one that waits for a retry, whose run will take the signal.
           and fingerprint is null));
begin
    if resumed <> '{}' then
        with gone as (
            delete from job_waiting where job_id = any (resumed) returning *
        )
        insert into job_ready (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                               lane, state, work_type, queue, "group", tenant, options, payload, error, followed, progress)
        select job_id, rank, least(not_before, clock_timestamp()), not_after, enqueued_at, weight, priority, attempt, deaths,
               to_lane, 'ready', work_type, queue, "group", tenant, options, payload, error, 1, progress
          from gone;
    end if;
    return resumed;
end $$;
