-- The lane for new ready jobs, until rotation moves on to the next. Read without a scan, which would cost as
-- much as a statement; a sequence that was never set returns null. Without settings of its own, so that it is
-- inlined.
create or replace function txqueue.current_lane() returns smallint
language sql volatile
as $$ select coalesce(pg_sequence_last_value('txqueue.lane'), 0)::smallint $$;
