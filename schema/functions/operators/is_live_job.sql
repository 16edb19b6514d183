-- Whether a job has not ended.
create or replace function txqueue.is_live_job(its_job_id bigint) returns boolean
language sql stable
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select exists (select from job where job_id = its_job_id and state in ('waiting', 'ready', 'assigned'))
$$;
