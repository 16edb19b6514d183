-- The tenants after one, in order, that have ready jobs in some queues: a walk from each to the next
-- by the index, which reads no other job of theirs.
create or replace function @schema@.next_tenants(queues text[], after_tenant text, at_most integer) returns text[]
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    found_ text[] := '{}';
    name   text := after_tenant;
begin
    while cardinality(found_) < at_most loop
        select min(first.tenant) into name
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.tenant from job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue
                           and ready.tenant is not null and ready.tenant > name
                         order by ready.tenant limit 1) as first;
        exit when name is null;
        found_ := found_ || name;
    end loop;
    return found_;
end $$;
