-- Moves waiting jobs, by ctid, to the ready partition; returns how many.
create or replace function txqueue.make_ready(places tid[]) returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    to_lane smallint := current_lane();
    moved   integer;
begin
    with gone as (
        delete from job_waiting where ctid = any (places) returning *
    )
    insert into job_ready (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                           lane, state, work_type, queue, "group", tenant, options, payload, error, followed, progress)
    select job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
           to_lane, 'ready', work_type, queue, "group", tenant, options, payload, error, followed, progress
      from gone;
    get diagnostics moved = row_count;
    return moved;
end $$;
