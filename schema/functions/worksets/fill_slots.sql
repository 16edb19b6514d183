-- Enqueues jobs of a workset up to its size, but no more than there are parts.
create or replace function txqueue.fill_slots(its_workset integer) returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    its      workset;
    live     integer;
    missing  integer;
begin
    select * into strict its from workset where workset_id = its_workset;
    -- Sessions that fill a running workset need not wait for each other.
    for round in 1 .. 2 loop
        select count(*) into live from workset_slot where workset_id = its_workset and job_id > 0 and is_live_job(job_id);
        select case when its.is_cut then least(its.size, count(*)) else its.size end - live into missing
          from (select from workset_part where workset_id = its_workset limit its.size) as parts;
        if missing <= 0 then
            return 0;
        end if;
        -- A live job finds all items, as it cannot end before the filling session has committed.
        if live = 0 then
            perform lock_workset('slots ' || its.name, true);
        elsif not lock_workset('slots ' || its.name, false) then
            return 0;
        end if;
    end loop;
    -- The counts of jobs that ended before the workset was done are kept under a number without a job.
    with gone as (
        delete from workset_slot where workset_id = its_workset and job_id > 0 and not is_live_job(job_id) returning *
    )
    insert into workset_slot as kept (job_id, workset_id, done, failed)
    select -its_workset, its_workset, sum(gone.done), sum(gone.failed) from gone having sum(gone.done + gone.failed) > 0
    on conflict (job_id) do update set done = kept.done + excluded.done, failed = kept.failed + excluded.failed;
    insert into workset_slot (job_id, workset_id)
    select job_id, its_workset
      from unnest(enqueue_many((select jsonb_agg(its.job) from generate_series(1, missing)))) as job_id;
    return missing;
end $$;
