-- Deletes all but the latest hundred failed attempts of a job.
create or replace function txqueue.forget_attempts(its_job_id bigint) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    delete from failed_attempt
     where job_id = its_job_id
       and attempt <= (select max(attempt) from failed_attempt where job_id = its_job_id) - 100;
end $$;
