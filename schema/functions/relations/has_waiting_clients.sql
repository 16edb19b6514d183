-- Whether a client is waiting for jobs to end. Without settings of its own, which would cost more than the
-- function.
create or replace function txqueue.has_waiting_clients() returns boolean
language sql volatile
as $$ select last_value > extract(epoch from clock_timestamp()) from txqueue.awaited $$;
