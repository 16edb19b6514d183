-- Stores the error of a handler that failed after its own transaction had completed the job: the job stays done.
create or replace function txqueue.note_late_error(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_error text) returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
begin
    update job_done set error = left(its_error, 20000)
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation;
end $$;
