-- Lets a draining node accept jobs again, unless it is stopping. Returns whether that changed anything.
create or replace function txqueue.undrain_node(its_name text, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    former text := lock_live_node(its_name);
begin
    if exists (select from node_info where name = its_name and state = 'draining' and (report -> 'is_ending') = 'true') then
        perform refuse(format('node %s is stopping', its_name), 'start it again, or another node');
    end if;
    update node_info set state = 'alive' where name = its_name and state = 'draining';
    perform pg_notify('txqueue', '');
    perform note_action(who, 'undrain', 'node ' || its_name);
    return former = 'draining';
end $$;
