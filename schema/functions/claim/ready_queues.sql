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
    ready text[];
begin
    with recursive ordinary as (
        (select first.queue from txqueue.job_ready as first
          where first.lane = any (lanes) and first.tenant is null and (first.rank, first.job_id) >= (from_rank, from_job) order by first.queue limit 1)
        union all
        select (select following.queue from txqueue.job_ready as following
                 where following.lane = any (lanes) and following.tenant is null and (following.rank, following.job_id) >= (from_rank, from_job)
                   and following.queue > ordinary.queue order by following.queue limit 1)
          from ordinary where ordinary.queue is not null
    ), of_tenants as (
        (select first.queue from txqueue.job_ready as first where first.lane = any (lanes) and first.tenant is not null order by first.queue limit 1)
        union all
        select (select following.queue from txqueue.job_ready as following
                 where following.lane = any (lanes) and following.tenant is not null and following.queue > of_tenants.queue order by following.queue limit 1)
          from of_tenants where of_tenants.queue is not null
    )
    select array_agg(each.queue) into ready
      from (select queue from ordinary union all select queue from of_tenants limit most) as each;
    return case when cardinality(ready) = most then queues
           else array(select each.queue from unnest(queues) as each (queue) where each.queue in (select unnest(ready))) end;
end $$;
