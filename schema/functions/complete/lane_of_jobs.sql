-- The lane in which some of the named jobs of an assignment are; null if none is assigned to this node any more.
create or replace function txqueue.lane_of_jobs(its_incarnation integer, its_assignment bigint, ids bigint[]) returns smallint
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
    select lane from job_assigned
     where job_id = any (ids) and assignment = its_assignment and incarnation = its_incarnation limit 1
$$;
