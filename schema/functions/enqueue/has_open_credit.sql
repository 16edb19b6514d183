-- Whether a node has granted credit of which there is some left. The sequence has the node's incarnation above
-- its low 20 bits, which count up to 2^19 as jobs take of the credit; sessions that take of it at the same time
-- may count on, hence the room above. Without settings of its own, so that it is inlined.
create or replace function txqueue.has_open_credit() returns boolean
language sql volatile
as $$ select coalesce(pg_sequence_last_value('txqueue.open_credit') & 1048575 < 524288, false) $$;
