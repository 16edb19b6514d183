-- Takes the unique key of a job for its retry; returns whether it may run: it has no key, or no other job
-- holds it.
create or replace function txqueue.retake_unique_key(this job) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    if jsonb_typeof(this.options) is distinct from 'object' or not this.options ? 'unique' then
        return true;
    end if;
    insert into unique_job (work_type, key, job_id) values (this.work_type, this.options ->> 'unique', this.job_id)
        on conflict do nothing;
    return found;
end $$;
