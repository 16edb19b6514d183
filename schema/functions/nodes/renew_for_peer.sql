-- Renews the leases of nodes that cannot reach the database, for a peer that they have just answered over
-- their own connection. For at most six consecutive leases, then they are presumed dead. Returns the nodes to
-- notify.
create or replace function txqueue.renew_for_peer(its_incarnation integer, heard integer[]) returns integer[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    kept integer[];
begin
    with renewed as (
        update node_info as node
           set heartbeat_at = clock_timestamp(), vouched_at = coalesce(node.vouched_at, clock_timestamp())
         where node.incarnation = any (heard) and node.state in ('alive', 'draining')
           and coalesce(node.vouched_at, 'infinity') > clock_timestamp() - 6 * node.lease
           and exists (select from node_info as me
                        where me.incarnation = its_incarnation and me.state in ('alive', 'draining')
                          and me.heartbeat_at > clock_timestamp() - me.lease)
        returning node.incarnation
    )
    select coalesce(array_agg(incarnation), '{}') into kept from renewed;
    return kept;
end $$;
