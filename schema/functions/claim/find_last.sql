-- The last of the ready jobs without a tenant in some queues, by rank and number, from a head on, or of all if that is
-- null; nulls if there are none. Only next_job() calls it, whose settings pin the plan.
create or replace function txqueue.find_last(
    queues text[], head txqueue.ready_head, out rank timestamptz, out job_id bigint)
language plpgsql stable
as $$
begin
    select last.rank, last.job_id into find_last.rank, find_last.job_id
      from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
           lateral (select ready.rank, ready.job_id from txqueue.job_ready as ready
                     where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant is null
                       and (ready.rank, ready.job_id) >= (coalesce(head.rank, '-infinity'), coalesce(head.job_id, 0))
                     order by ready.rank desc, ready.job_id desc limit 1) as last
     order by last.rank desc, last.job_id desc limit 1;
end $$;
