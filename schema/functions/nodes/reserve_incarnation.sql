-- Reserves the number of a run of a node for register_node(), for older code: a late registration, which its
-- caller has given up and repeated, has the smaller number and is refused.
create or replace function txqueue.reserve_incarnation() returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    reserved integer;
begin
    loop
        reserved := nextval('incarnation');
        -- A sequence that was not copied with its table is behind it.
        exit when not exists (select from node_info where incarnation = reserved);
    end loop;
    return reserved;
end $$;
