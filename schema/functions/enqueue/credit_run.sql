-- The run of the node that has granted a value of the sequence open_credit. Without settings of its own, so that it is
-- inlined.
create or replace function txqueue.credit_run(credit bigint) returns integer
language sql immutable
as $$ select (credit >> 20 & 2147483647)::integer $$;
