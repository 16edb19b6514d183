-- The assignments of a node that are older than a number of seconds, or of the future, as the clock was set back, and how many jobs of each are still
-- assigned: the node compares them with the jobs that it holds.
create or replace function txqueue.assignments_of(its_incarnation integer, older_than double precision)
returns table (assignment bigint, jobs bigint)
language sql stable security definer
set search_path = txqueue, pg_temp
set enable_sort = off
set jit = off
as $$
    select job.assignment, count(*) from job_assigned as job
     where job.incarnation = its_incarnation and job.assigned_at not between clock_timestamp() - make_interval(secs => older_than) and clock_timestamp()
     group by job.assignment
$$;
