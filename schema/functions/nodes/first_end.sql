-- In how many seconds a node may rescue the first of the nodes next to it, the eight before it and the eight
-- after it by incarnation; null if there are none. It watches no others, or hundreds of nodes would all send
-- heartbeats, again and again, while one of them rescues a dead one.
create or replace function txqueue.first_end(its_incarnation integer) returns double precision
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    select extract(epoch from min(greatest(near.heartbeat_at, me.leased_at) + near.lease + lease_margin()) - clock_timestamp())
      from node_info as me,
           lateral ((select heartbeat_at, lease from node_info
                      where state in ('alive', 'draining') and incarnation < its_incarnation order by incarnation desc limit 8)
                    union all
                    (select heartbeat_at, lease from node_info
                      where state in ('alive', 'draining') and incarnation > its_incarnation order by incarnation limit 8)) as near
     where me.incarnation = its_incarnation and me.state in ('alive', 'draining')
$$;
