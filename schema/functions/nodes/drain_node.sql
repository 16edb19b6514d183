-- Drains a live node: it accepts no more jobs, passes on unstarted ones and finishes running ones, until it
-- is undrained or restarted. Returns whether that changed anything.
create or replace function txqueue.drain_node(its_name text, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    former text := lock_live_node(its_name);
begin
    update node_info set state = 'draining' where name = its_name and state = 'alive';
    if not exists (select from node_info where state = 'alive') then
        perform setval('asleep', 0);
    end if;
    perform note_action(who, 'drain', 'node ' || its_name);
    return former = 'alive';
end $$;
