-- Whether another node that serves a queue and a type is less loaded than the one of an incarnation, by a tenth of
-- its capacity, and has room for a job of some weight. The loads are those of the last heartbeats.
create or replace function txqueue.has_lighter_node(
    its_incarnation integer, its_load double precision, its_queue text, its_type text, its_weight integer) returns boolean
language sql stable
set search_path = txqueue, pg_temp
as $$
    select exists (
        select from node_info as other
         where is_reachable(other, other.lease / 2) and other.incarnation <> its_incarnation and other.load < its_load - 0.1
           and (1 - other.load) * other.capacity >= its_weight
           and coalesce((other.report ->> 'workers')::integer, 1) > coalesce((other.report ->> 'unable')::integer, 0)
           and serves_type(other, its_queue, its_type))
$$;
