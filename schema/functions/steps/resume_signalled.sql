-- Makes those of some jobs ready that wait for a signal which is there, except those that another transaction has
-- locked, for propagate_late_ends(). Returns which.
create or replace function txqueue.resume_signalled(ids bigint[]) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    to_lane smallint := current_lane();
    waiting bigint[];
    places  tid[];
    resumed bigint[];
begin
    select array_agg(job_id), array_agg(ctid) into waiting, places
      from (select job_id, ctid from job_waiting
             where job_id = any (ids) and waiting_for in ('signal', 'time', 'parents') and options ? 'steps'
               -- Not one that waits for a retry, whose run will take the signal.
               and fingerprint is null
               for update skip locked) as locked;
    if waiting is null then
        return '{}';
    end if;
    resumed := signalled_jobs(waiting);
    with gone as (
        delete from job_waiting where ctid = any (places) and (job_id = any (resumed)) is true returning *
    )
    insert into job_ready (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                           lane, state, work_type, queue, "group", tenant, options, payload, error, followed, progress)
    select job_id, rank, least(not_before, clock_timestamp()), not_after, enqueued_at, weight, priority, attempt, deaths,
           to_lane, 'ready', work_type, queue, "group", tenant, options, payload, error, 1, progress
      from gone;
    return resumed;
end $$;
