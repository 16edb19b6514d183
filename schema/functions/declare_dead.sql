-- Gives the jobs of nodes back whose masters are known to have ended, before their leases are out. Only a
-- live node of the same host can know that. Returns how many jobs.
create or replace function @schema@.declare_dead(its_incarnation integer, ended integer[]) returns integer
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
as $$
declare
    orphaned integer;
    rescued  integer := 0;
begin
    for orphaned in
        update node_info as node set state = 'dead'
         where node.incarnation = any (ended) and node.state in ('alive', 'draining')
           and exists (select from node_info as me
                        where me.incarnation = its_incarnation and me.state in ('alive', 'draining')
                          and me.report ->> 'host' = node.report ->> 'host')
        returning node.incarnation
    loop
        rescued := rescued + release(orphaned, '{}', true, true);
    end loop;
    return rescued;
end $$;
