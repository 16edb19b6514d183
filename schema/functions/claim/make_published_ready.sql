-- Makes up to 10,000 jobs ready that waited for a type which is now published. Returns how many; if it is that
-- many, there may be more, for the next heartbeat.
create or replace function txqueue.make_published_ready() returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    to_lane smallint := current_lane();
    waiting tid[];
    moved   integer;
begin
    waiting := array(
        select ctid from job_waiting
         where waiting_for = 'type' and work_type = any (array(
            select known.work_type from work_type as known
             where exists (select from job_waiting as job
                            where job.waiting_for = 'type' and job.work_type = known.work_type)))
         limit 10000 for update skip locked);
    if waiting = '{}' then
        return 0;
    end if;
    with gone as (
        delete from job_waiting where ctid = any (waiting) returning *, not_before > clock_timestamp() as is_early
    )
    insert into job (job_id, rank, not_before, not_after, enqueued_at, started_at, weight, priority, attempt, deaths,
                     lane, state, waiting_for, work_type, queue, "group", tenant, options, payload, error, result,
                     followed, fingerprint, failed_at, progress)
    select job_id, rank, not_before, not_after, enqueued_at, started_at, weight, priority, attempt, deaths,
           to_lane, case when is_early then 'waiting' else 'ready' end::job_state, case when is_early then 'time' end,
           work_type, queue, "group", tenant, options, payload, error, result,
           followed, fingerprint, failed_at, progress
      from gone;
    get diagnostics moved = row_count;
    perform wake_masters(moved);
    return moved;
end $$;
