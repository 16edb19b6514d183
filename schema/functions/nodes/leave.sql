-- Marks a node as draining or stopped; the jobs of a stopped one return to the queue. While no node is alive,
-- no master counts as asleep, so that enqueues send no NOTIFY.
create or replace function txqueue.leave(its_incarnation integer, its_state text) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    update node_info set state = its_state, ended_at = case when its_state = 'stopped' then clock_timestamp() end
     where incarnation = its_incarnation and state in ('alive', 'draining');
    if not exists (select from node_info where state = 'alive') then
        perform setval('asleep', 0);
    end if;
    if its_state = 'stopped' then
        return release(its_incarnation, '{}', false, true);
    end if;
    return 0;
end $$;
