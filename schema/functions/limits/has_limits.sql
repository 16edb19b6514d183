-- Whether a queue, a group or a tenant ever had a limit or a pause, so that there may be one now. Read without a
-- scan, which would cost as much as a statement. Without settings of its own, so that it is inlined.
create or replace function txqueue.has_limits() returns boolean
language sql volatile
as $$ select coalesce(pg_sequence_last_value('txqueue.has_limits'), 0) = 1 $$;
