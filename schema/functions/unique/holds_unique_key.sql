-- Whether a job holds its unique key, or has none.
create or replace function txqueue.holds_unique_key(this job) returns boolean
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select (jsonb_typeof(this.options) = 'object' and this.options ? 'unique') is not true
        or exists (select from unique_job as held
                    where held.work_type = this.work_type and held.key = this.options ->> 'unique' and held.job_id = this.job_id)
$$;
