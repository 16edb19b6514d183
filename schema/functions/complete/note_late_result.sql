-- Stores what a handler returned after its own transaction had completed the job without a result. Returns whether it is
-- kept: not if other jobs follow that job, which may have read that it has none.
create or replace function txqueue.note_late_result(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
begin
    update job_done set result = its_result
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation and result is null
       and followed is null;
    return found;
end $$;
