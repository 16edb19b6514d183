-- Starts cool-downs whose job no longer exists, because it was deleted, or did not belong to this schedule
-- alone, and again those that end later than one that starts now, as the clock was set back. Returns how many.
create or replace function txqueue.start_missed_cooldowns() returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    mended    integer;
    restarted integer;
begin
    update schedule set next_due = next_due_within(until, times - runs, clock_timestamp() + make_interval(secs => seconds + jitter * random()))
     where kind = 'cooldown' and is_active and next_due is null and not exists (
        select from job where job.job_id = schedule.last_job and state in ('waiting', 'ready', 'assigned'));
    get diagnostics mended = row_count;
    update schedule set next_due = clock_timestamp() + make_interval(secs => seconds)
     where kind = 'cooldown' and is_active and isfinite(next_due) and last_job is not null
       and next_due > clock_timestamp() + make_interval(secs => seconds + jitter + 1);
    get diagnostics restarted = row_count;
    return mended + restarted;
end $$;
