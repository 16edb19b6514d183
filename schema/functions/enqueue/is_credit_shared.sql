-- Whether a value of the sequence open_credit lets transactions take of it that do not have the turn to notify: its bit
-- 60. Without settings of its own, so that it is inlined.
create or replace function txqueue.is_credit_shared(credit bigint) returns boolean
language sql immutable
as $$ select credit >> 60 & 1 = 1 $$;
