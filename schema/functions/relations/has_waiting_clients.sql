-- Whether a client waits for jobs to end just now. Without settings of its own: they would cost more than
-- what it does.
create or replace function txqueue.has_waiting_clients() returns boolean
language sql volatile
as $$ select last_value > extract(epoch from clock_timestamp()) from txqueue.awaited $$;
