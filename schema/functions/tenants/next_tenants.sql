-- The tenants after one, in order, that have ready jobs in some queues, and the rank of the first job of
-- each: a walk from each to the next by the index, which reads no other job of theirs.
create or replace function txqueue.next_tenants(
    queues text[], after_tenant text, at_most integer, out tenants text[], out ranks timestamptz[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    lanes constant smallint[] := case when cardinality(queues) > 8 then lanes_in_use() else '{0,1,2,3,4,5,6,7}' end;
    its   record;
begin
    if cardinality(queues) > 64 then
        -- The others have none of the first tenants.
        with first_of as materialized (
            select wanted.queue, first.tenant
              from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                   lateral (select ready.tenant from job_ready as ready
                             where ready.lane = each.lane and ready.queue = wanted.queue
                               and ready.tenant is not null and ready.tenant > after_tenant
                             order by ready.tenant limit 1) as first
        )
        select array_agg(distinct queue) into queues from first_of
         where tenant <= (select max(tenant) from (select distinct tenant from first_of order by tenant limit at_most) as few);
    end if;
    tenants := '{}';
    ranks := '{}';
    while cardinality(tenants) < at_most loop
        select first.tenant, first.rank into its
          from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
               lateral (select ready.tenant, ready.rank from job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue
                           and ready.tenant is not null and ready.tenant > after_tenant
                         order by ready.tenant, ready.rank limit 1) as first
         order by first.tenant, first.rank limit 1;
        exit when not found;
        after_tenant := its.tenant;
        tenants := tenants || its.tenant;
        ranks := ranks || its.rank;
    end loop;
end $$;
