-- The head of the ready jobs of one tenant, or of those of priority 7 and higher: the lane and queue of the
-- smallest rank, and up to which rank that lane may be read before another lane's turn. next_job() itself
-- does the same for jobs without a tenant.
create or replace function txqueue.special_head(
    queues text[], work_types text[], passed smallint[], its_tenant text,
    out lane smallint, out queue text, out rank timestamptz, out job_id bigint, out until_rank timestamptz, out until_job bigint)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if its_tenant is null then
        select each.lane, first.queue, first.rank, first.job_id, lead(first.rank) over following, lead(first.job_id) over following
          into lane, queue, rank, job_id, until_rank, until_job
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue
                           and ready.work_type = any (work_types) and ready.priority >= 7
                         order by ready.rank, ready.job_id limit 1) as first
         where each.lane <> all (passed)
        window following as (order by first.rank, first.job_id)
         order by first.rank, first.job_id limit 1;
    else
        select each.lane, first.queue, first.rank, first.job_id, lead(first.rank) over following, lead(first.job_id) over following
          into lane, queue, rank, job_id, until_rank, until_job
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue
                           and ready.work_type = any (work_types) and ready.tenant = its_tenant
                         order by ready.rank, ready.job_id limit 1) as first
         where each.lane <> all (passed)
        window following as (order by first.rank, first.job_id)
         order by first.rank, first.job_id limit 1;
    end if;
end $$;
