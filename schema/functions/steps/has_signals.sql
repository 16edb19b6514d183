-- Whether a signal was ever sent. Without settings of its own, so that it is inlined.
create or replace function txqueue.has_signals() returns boolean
language sql volatile
as $$ select coalesce(pg_sequence_last_value('txqueue.has_signals'), 0) = 1 $$;
