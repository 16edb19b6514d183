-- The number of a queue's ready jobs.
create or replace function txqueue.backlog(queue text) returns bigint
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
    select (select count(*) from job_ready where job_ready.queue = $1 and tenant is null)
         + (select count(*) from job_ready where job_ready.queue = $1 and tenant is not null)
$$;
