-- Whether a client is waiting for jobs to end. Read without a scan, which would cost as much as a statement.
-- Without settings of its own, so that it is inlined.
create or replace function txqueue.has_waiting_clients() returns boolean
language sql volatile
as $$ select coalesce(pg_sequence_last_value('txqueue.awaited'), 0) > extract(epoch from clock_timestamp()) $$;
