-- The live nodes to which a node connects: the eight before it and the eight after it in the circle of their
-- incarnations, so that each of two finds the other. All others, if they are no more than sixteen. What a node
-- spends on its peers does not grow with their number.
create or replace function txqueue.nearest_nodes(its_incarnation integer) returns setof txqueue.node_info
language sql stable
set search_path = txqueue, pg_temp
as $$
    with others as (
        select * from node_info where state in ('alive', 'draining') and address is not null and incarnation <> its_incarnation
    )
    (select * from others order by incarnation < its_incarnation desc, incarnation desc limit 8)
    union
    (select * from others order by incarnation > its_incarnation desc, incarnation limit 8)
$$;
