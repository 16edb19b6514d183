-- Listens on a new channel, on which notifications bring this run of a node its jobs; returns the channel's name, or null
-- if the node has another run by now. Any role may listen to any channel and notify it: so the name cannot be guessed, and
-- no statement that others may see has it.
create or replace function txqueue.listen_to_run(its_incarnation integer) returns text
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its_channel constant text := gen_random_uuid();
begin
    insert into node_channel (node_id, incarnation, channel)
    select node.node_id, node.incarnation, its_channel from node_info as node where node.incarnation = its_incarnation
    on conflict (node_id) do update set incarnation = excluded.incarnation, channel = excluded.channel;
    if not found then
        return null;
    end if;
    execute format('listen %I', its_channel);
    return its_channel;
end $$;
