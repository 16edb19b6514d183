-- Leaves the row of a job that cannot be deleted where it is, as a remnant: it has the negative number, and nothing by
-- which claims and operators would find it. Lanes are truncated in spite of remnants; drop_remnants() deletes those of
-- waiting jobs. Returns the job, whose large values may be lost, to be stored anew.
create or replace function txqueue.leave_remnant(its_state job_state, its_lane smallint, its_id bigint) returns txqueue.job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    this job;
begin
    select * into this from job where state = its_state and lane = its_lane and job_id = its_id;
    -- None of its large values is named, so that they stay where they are.
    update job
       set job_id = -job_id, rank = 'infinity', queue = '', work_type = '', waiting_for = null, "group" = null, tenant = null,
           counted = null, handed = null, followed = null, assignment = null, incarnation = null, node_id = null,
           fingerprint = null, deaths = 0
     where state = its_state and lane = its_lane and job_id = its_id;
    return this;
end $$;
