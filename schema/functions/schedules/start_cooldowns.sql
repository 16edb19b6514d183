-- Starts the cool-downs whose jobs have ended, with any outcome. A schedule that another session holds, perhaps an
-- application, is left for propagate_late_ends(), as no completion waits for it.
create or replace function txqueue.start_cooldowns(ids bigint[], ended text) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    free bigint[] := array(
        select schedule_id from schedule where kind = 'cooldown' and last_job = any (ids) order by schedule_id for update skip locked);
begin
    update schedule set next_due = next_due_within(until, times - runs, greatest(clock_timestamp(), cooldown_start(counts_from, last_job) + make_interval(secs => seconds + jitter * random())))
     where schedule_id = any (free);
    perform note_late_ends(array(
        select last_job from schedule where kind = 'cooldown' and last_job = any (ids) and schedule_id <> all (free)));
    return false;
end $$;
