-- The live nodes to which a node connects: the eight before it and the eight after it in the circle of their
-- incarnations, so that each of two finds the other. All others, if they are no more than sixteen. What a node
-- spends on its peers does not grow with their number: each part is read from the index of incarnations, and
-- a part that goes beyond the circle's end is only read if the part before it is not enough.
create or replace function txqueue.nearest_nodes(its_incarnation integer) returns setof txqueue.node_info
language sql stable
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    (select * from (
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation < its_incarnation
          order by incarnation desc limit 8)
        union all
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation > its_incarnation
          order by incarnation desc limit 8)) as before limit 8)
    union
    (select * from (
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation > its_incarnation
          order by incarnation limit 8)
        union all
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation < its_incarnation
          order by incarnation limit 8)) as after limit 8)
$$;
