-- How many jobs a value of the sequence open_credit leaves. Above its low 20 bits is the incarnation of the node
-- that has granted the credit; these bits count up to 2^19 as jobs take of it, and on if sessions take of it at
-- the same time: hence the room above. Without settings of its own, so that it is inlined.
create or replace function txqueue.credit_left(credit bigint) returns bigint
language sql immutable
as $$ select 524288 - (credit & 1048575) $$;
