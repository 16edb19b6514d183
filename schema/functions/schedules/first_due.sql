-- When a new or restarted schedule is due: not computed yet, unless it waits for the end of its job.
create or replace function txqueue.first_due(its_kind text, its_last_job bigint) returns timestamptz
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select case when its_kind <> 'cooldown' or not exists (
        select from job where job_id = its_last_job and state in ('waiting', 'ready', 'assigned')) then '-infinity'::timestamptz end
$$;
