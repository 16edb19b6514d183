-- Starts the cool-downs whose jobs have ended, with any outcome.
create or replace function txqueue.start_cooldowns(ids bigint[], ended text) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    perform from schedule where kind = 'cooldown' and last_job = any (ids) order by schedule_id for update;
    update schedule set next_due = next_due_within(until, times - runs, clock_timestamp() + make_interval(secs => seconds + jitter * random()))
     where kind = 'cooldown' and last_job = any (ids);
    return false;
end $$;
