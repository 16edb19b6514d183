-- Rescues the jobs of nodes whose masters have certainly ended, before their leases expire. Only a live node
-- of the same host may call this. Returns how many jobs.
create or replace function txqueue.declare_dead(its_incarnation integer, ended integer[]) returns integer
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select mark_dead(array(
        select node.incarnation from node_info as node
          join node_info as me on me.report ->> 'host' = node.report ->> 'host'
         where node.incarnation = any (ended)
           and me.incarnation = its_incarnation and me.state in ('alive', 'draining')))
$$;
