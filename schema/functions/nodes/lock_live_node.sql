-- Locks a live node and returns its state; refuses any other node.
create or replace function txqueue.lock_live_node(its_name text) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    its_state text;
begin
    select state into its_state from node_info
     where name = its_name and state in ('alive', 'draining') and heartbeat_at >= clock_timestamp() - lease
       for update;
    if not found then
        perform refuse(format('no live node is named %s', its_name), 'see which live: txqueue nodes');
    end if;
    return its_state;
end $$;
