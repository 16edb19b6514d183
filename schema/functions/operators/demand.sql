-- The weight of a queue's jobs that run or could run now, up to 10,000: what a fleet of nodes is sized by. It reads
-- at most 10,000 rows of each kind, and counts due jobs that wait for their time: no node promotes these while none
-- runs. Assigned jobs have no index by queue, so it reads the first ones of all queues.
create or replace function txqueue.demand(queue text) returns bigint
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
    select least(10000, coalesce(sum(weight), 0))
      from ((select weight from job_ready where job_ready.queue = $1 and tenant is null limit 10000)
             union all
            (select weight from job_ready where job_ready.queue = $1 and tenant is not null limit 10000)
             union all
            (select weight
               from (select job_assigned.queue, weight from job_assigned limit 10000) as assigned
              where assigned.queue = $1)
             union all
            (select weight
               from (select job_waiting.queue, weight from job_waiting
                      where waiting_for in ('time', 'rate') and not_before <= now()
                      order by not_before limit 10000) as due
              where due.queue = $1)) as jobs
$$;
