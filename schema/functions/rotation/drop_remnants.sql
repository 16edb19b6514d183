-- Deletes what is left of damaged waiting jobs, once vacuum has removed the values that could not be deleted: see
-- leave_remnant(). Those of lanes go with the truncation of these.
create or replace function txqueue.drop_remnants() returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    if exists (select from job_waiting where job_id < 0) then
        delete from job_waiting where job_id < 0;
    end if;
exception when internal_error or system_error then
    -- Later.
end $$;
