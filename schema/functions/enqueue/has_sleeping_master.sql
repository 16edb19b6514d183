-- Whether some master sleeps until a notification: the lowest bit of the sequence asleep. Read without a scan,
-- which would cost as much as a statement. Without settings of its own, so that it is inlined.
create or replace function txqueue.has_sleeping_master() returns boolean
language sql volatile
as $$ select coalesce(pg_sequence_last_value('txqueue.asleep') & 1, 0) = 1 $$;
