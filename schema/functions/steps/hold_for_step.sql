-- Keeps a running job of one lane from being given to another run until the commit, and notes among its options that it
-- has steps; returns whether the token of the run holds. One function per lane, so that its plan is kept.
create or replace function txqueue.hold_for_step_0(its_incarnation integer, its_assignment bigint, its_job_id bigint)
returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
    update job_assigned_0 set options = coalesce(options, '{}') || '{"steps": true}'
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation and (options ? 'steps') is not true;
    if not found then
        perform from job_assigned_0
         where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation for key share;
    end if;
    return found;
end $$;
