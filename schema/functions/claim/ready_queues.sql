-- Those of many queues that have ready jobs, those without a tenant from a position on; all of them if jobs of very many
-- queues, also of other nodes, are ready. It goes from each queue with jobs to the next one by the index, so that a claim
-- costs what is ready rather than what its node serves. Its callers pin the plan and the search path: next_job(), by
-- open_claim(), and ahead_facts().
create or replace function txqueue.ready_queues(queues text[], from_rank timestamptz, from_job bigint) returns text[]
language plpgsql volatile
as $$
declare
    -- A step costs as much as it does to see in one lane that half as many queues as these have no job.
    most  constant integer := cardinality(queues) / 16;
    lanes constant smallint[] := txqueue.lanes_in_use();
    found_ text[];
begin
    with recursive walk (is_of_tenants, queue) as (
        select is_of_tenants, '' collate "C" from unnest('{true,false}'::boolean[]) as is_of_tenants
        union all
        select walk.is_of_tenants, case when walk.is_of_tenants then
                   (select ready.queue from txqueue.job_ready as ready
                     where ready.lane = any (lanes) and ready.tenant is not null and ready.queue > walk.queue
                     order by ready.queue limit 1)
               else
                   (select ready.queue from txqueue.job_ready as ready
                     where ready.lane = any (lanes) and ready.tenant is null and ready.queue > walk.queue
                       and (ready.rank, ready.job_id) >= (from_rank, from_job)
                     order by ready.queue limit 1)
               end
          from walk where walk.queue is not null
    )
    select array_agg(each.queue) into found_ from (select queue from walk limit most) as each;
    return case when cardinality(found_) = most then queues
           else array(select each.queue from unnest(queues) as each (queue) where each.queue in (select unnest(found_))) end;
end $$;
