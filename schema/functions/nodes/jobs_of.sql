-- The jobs of some of a node's assignments that are still assigned to it.
create or replace function txqueue.jobs_of(its_incarnation integer, assignments bigint[])
returns table (assignment bigint, job_id bigint)
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select job.assignment, job.job_id from job_assigned as job
     where job.incarnation = its_incarnation and job.assignment = any (assignments)
$$;
