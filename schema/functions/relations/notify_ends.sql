-- Notifies waiting clients of jobs that have ended, for the node that has written their ends: their numbers joined by
-- commas, or an empty text for any job. A transaction of its own, as one that commits with a notification makes others
-- that do so wait until it is on disk; this one writes nothing, and waits for no disk. Returns for how many more
-- seconds clients have asked for such notifications.
create or replace function txqueue.notify_ends(ids text) returns double precision
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select notify_ended_jobs(ids) where has_waiting_clients();
    select greatest(0, pg_sequence_last_value('awaited') - extract(epoch from clock_timestamp()))::double precision
$$;
