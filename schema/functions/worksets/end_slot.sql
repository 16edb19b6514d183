-- Ends a job of a workset in the caller's transaction, completing it: done if no part is left, or replaced by
-- a new job, so that other jobs get their turn. Returns false if there is more to do, or a session is filling
-- the workset.
create or replace function txqueue.end_slot(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, is_renewed boolean)
returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its  workset;
    mine workset_slot;
begin
    if is_renewed then
        select * into strict its from workset where name = its_name;
    else
        select * into its from workset where name = its_name for no key update skip locked;
        if not found or not its.is_cut
           or exists (select from workset_part where workset_id = its.workset_id and job_id is null) then
            return false;
        end if;
    end if;
    perform complete_one(its_incarnation, its_assignment, its_job_id, null);
    if is_renewed then
        update workset_slot set job_id = (enqueue_many(jsonb_build_array(its.job)))[1] where workset_slot.job_id = its_job_id;
        return true;
    end if;
    delete from workset_slot where workset_slot.job_id = its_job_id returning * into mine;
    update workset set done = workset.done + mine.done, failed = workset.failed + mine.failed where workset_id = its.workset_id;
    return true;
end $$;
