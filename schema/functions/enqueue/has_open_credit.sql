-- Whether a node has granted credit of which there is some left. Without settings of its own, so that it is
-- inlined.
create or replace function txqueue.has_open_credit() returns boolean
language sql volatile
as $$ select coalesce(txqueue.credit_left(pg_sequence_last_value('txqueue.open_credit')) > 0, false) $$;
