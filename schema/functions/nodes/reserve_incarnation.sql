-- Reserves the number of a run of a node, for register_node(): a late registration, which its caller has
-- given up and repeated, has the smaller number and is refused.
create or replace function txqueue.reserve_incarnation() returns integer
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select nextval('incarnation')::integer
$$;
